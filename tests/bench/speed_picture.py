"""Draws the time per step and to the first step, for scripts/bench.sh speed."""
import picture


def draw(rows):
    """rows: (recipe, program, ms a step, seconds to the first step or None), by recipe."""
    left, bar, width = 290, 290, 930
    columns = {"milliseconds a step": 2, "seconds from launch to the first step": 3}
    recipes = list(dict.fromkeys(row[0] for row in rows))
    parts = []
    for number, (title, field) in enumerate(columns.items()):
        x = left + number * (bar + 60)
        parts.append(picture.text(x, 24, title, "faint"))
        most = max(row[field] for row in rows if row[field] is not None)
        for line, row in enumerate(rows):
            y = 40 + 24 * line + 10 * recipes.index(row[0])
            if number == 0:
                parts.append(picture.text(left - 10, y + 13, f"{row[0]}, {row[1]}", anchor="end"))
            if row[field] is None:
                parts.append(picture.text(x, y + 13, "not measured", "faint"))
                continue
            shown = 0.85 * bar * row[field] / most
            colour = 2 if row[1].startswith("train_gpt") else 3
            parts.append(f'<rect class="fill{colour}" x="{x}" y="{y}" width="{shown:.1f}" height="17"/>')
            parts.append(picture.text(x + shown + 6, y + 13, f"{row[field]:,.{1 if field == 3 else 0}f}"))
    height = 50 + 24 * len(rows) + 10 * len(recipes)
    programs = " and ".join(dict.fromkeys(row[1] for row in rows))
    return picture.svg(width, height, f"{programs}: time of a step, and until the first one", parts)
