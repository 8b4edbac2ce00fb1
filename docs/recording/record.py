#!/usr/bin/env python3
"""Records README's first picture: a power cut that finds a bug in somebody's program.

    docs/recording/record.py [PATH OF tantalum]     writes docs/crash-run.svg

Runs `tantalum crash run` on save.py beside this file, and draws what it printed, cut to the lines that matter.
"""

import html
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = "tantalum crash run --check ./check.py -- ./save.py"
WIDTH, LINE, LEFT, TOP = 900, 19, 22, 52
SECONDS = 16
PROGRAM_SECONDS = 5
COLOURS = {"text": "#d8dee9", "faint": "#8b95a7", "good": "#a3be8c", "bad": "#ef7a85", "head": "#88c0d0"}


def run(tantalum):
    command = COMMAND.replace("tantalum", tantalum, 1).replace("./", f"{HERE}/").split()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        sys.exit(f"{COMMAND}: exit code {done.returncode}, not 1\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def colour(line):
    words = line.strip()
    if line.startswith("$"):
        return "head"
    if line.startswith("FINDING") or words.startswith("checks that failed"):
        return "bad"
    if words.startswith("fsync"):
        return "good"
    if words.startswith("#") or words.startswith("---") or words.endswith("for the same reason"):
        return "faint"
    return "text"


def frame(name, lines):
    drawn = [f'<g class="{name}">']
    for number, line in enumerate(lines):
        y = TOP + LINE * number
        drawn.append(f'<text x="{LEFT}" y="{y}" fill="{COLOURS[colour(line)]}">{html.escape(line)}</text>')
    return "\n".join(drawn + ["</g>"])


def draw(program, result):
    height = TOP + LINE * max(len(program), len(result)) + 6
    share = 100 * PROGRAM_SECONDS / SECONDS
    style = f"""
text {{ font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }}
.program {{ opacity: 0; animation: program {SECONDS}s infinite; }}
.result {{ animation: result {SECONDS}s infinite; }}
@keyframes program {{ 0%, {share - 2:.0f}% {{ opacity: 1; }} {share:.0f}%, 98% {{ opacity: 0; }} 100% {{ opacity: 1; }} }}
@keyframes result {{ 0%, {share - 1:.0f}% {{ opacity: 0; }} {share + 1:.0f}%, 97% {{ opacity: 1; }} 99%, 100% {{ opacity: 0; }} }}
@media (prefers-reduced-motion: reduce) {{ .program, .result {{ animation: none; }} }}
"""
    dots = "".join(
        f'<circle cx="{24 + 20 * at}" cy="20" r="6" fill="{fill}"/>'
        for at, fill in enumerate(["#ef7a85", "#ebcb8b", "#a3be8c"])
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>tantalum crash run finds that a program lacks an fsync</title>
<style>{style}</style>
<rect width="{WIDTH}" height="{height}" rx="8" fill="#242933"/>
{dots}
{frame("program", program)}
{frame("result", result)}
</svg>
"""


def main():
    said = run(sys.argv[1] if len(sys.argv) > 1 else "tantalum")
    program = ["$ cat save.py"] + (HERE / "save.py").read_text().splitlines()
    program += ["", f"$ {COMMAND}"]
    svg = draw(program, [f"$ {COMMAND}"] + said)
    (HERE.parent / "crash-run.svg").write_text(svg)


if __name__ == "__main__":
    main()
