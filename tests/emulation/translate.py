"""usage: translate.py SRC OUT

Translates kernel files to C++ for tests/emulation/device.h: writes SRC's .cu and .cuh files to OUT under the same names,
with .cpp appended for .cu. Replaces CUDA constructs: launches, dynamic shared memory and PTX instructions. Skips the
Hopper GEMM and the PTX wrappers (REPLACED), which have replacements in this folder.
"""

import pathlib
import re
import sys

# PTX instructions and their replacements in device.h.
PTX = {
    r'asm("max.NaN.f32 %0, %0, %1;" : "+f"(amax) : "f"(fabsf(value)));': "amax = max_or_nan(amax, fabsf(value));",
    r'asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));': "y = min_or_nan_of(a, b);",
    r'asm volatile("prefetch.global.L2 [%0];" ::"l"(at));': ";",
    r'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));': "y = std::exp2(x);",
    r'asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));': "y = 1 / x;",
    r'asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));': "y = std::sqrt(x);",
}
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+) (\w+)\[\];")
LAUNCH = "<<<"
REPLACED = ("gemm.cuh", "gemm_launch.cuh", "mma.cuh", "ptx.cuh")


def arguments(text):
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "(<{") - (character in ")>}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def kernel_before(text, end):
    """Returns where the expression that ends at `end` begins: a name, its template arguments, a member."""
    begin, depth = end, 0
    while True:
        character = text[begin - 1]
        depth += (character in ">)") - (character in "<(")
        if depth < 0 or (depth == 0 and not re.match(r"[\w.:<(]", character)):
            return begin
        begin -= 1


def without_launches(text):
    """Replaces kernel<<<grid, block, shared, stream>>>(args) by emulation::launch(kernel, grid, block, args)."""
    while LAUNCH in text:
        at = text.index(LAUNCH)
        name_end = len(text[:at].rstrip())
        begin = kernel_before(text, name_end)
        config_end = text.index(">>>(", at)
        grid, block, *_ = arguments(text[at + len(LAUNCH):config_end])
        call = f"[&](auto... args_) {{ {text[begin:name_end]}(args_...); }}"
        text = f"{text[:begin]}emulation::launch({call}, dim3({grid}), dim3({block}), {text[config_end + 4:]}"
    return text


def translated(text):
    for instruction, replacement in PTX.items():
        text = text.replace(instruction, replacement)
    text = DYNAMIC_SHARED.sub(r"\1* const \2 = reinterpret_cast<\1*>(emulation::dynamic_shared);", text)
    return without_launches(text).replace("cudaGetLastError()", "cudaSuccess")


def main(source, out):
    for path in sorted([*source.rglob("*.cu"), *source.rglob("*.cuh")]):
        name = path.relative_to(source)
        if name.name in REPLACED:
            continue
        target = out / (f"{name}.cpp" if path.suffix == ".cu" else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = translated(path.read_text())
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
