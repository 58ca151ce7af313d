"""SVG helpers for the pictures here, with light and dark colours."""
from xml.sax.saxutils import escape

LIGHT = {"page": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "line": "#e1e4e8",
         "curves": ("#1f2328", "#c1440e", "#1f6fb2", "#8a8f98")}
DARK = {"page": "#0d1117", "ink": "#e6edf3", "faint": "#9198a1", "line": "#30363d",
        "curves": ("#e6edf3", "#ff8a4c", "#58a6ff", "#7d8590")}
COLOURS = len(LIGHT["curves"])  # the classes fill0 and stroke0, fill1 and stroke1, ...


def rules(theme):
    yield f".page {{ fill: {theme['page']} }} .line {{ stroke: {theme['line']} }}"
    yield f"text {{ fill: {theme['ink']} }} .faint {{ fill: {theme['faint']} }}"
    for number, colour in enumerate(theme["curves"]):
        yield f".fill{number} {{ fill: {colour} }} .stroke{number} {{ stroke: {colour}; fill: none }}"


STYLE = "\n".join([*rules(LIGHT), "@media (prefers-color-scheme: dark) {", *rules(DARK), "}"])


def text(x, y, words, kind="", anchor="start"):
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{escape(words)}</text>'


def svg(width, height, title, parts):
    """Returns the SVG's text. `parts`: elements; title: text for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' font-family="sans-serif" font-size="12" role="img"><title>{escape(title)}</title>'
        f'<style>{STYLE}</style><rect class="page" width="{width}" height="{height}"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
