"""Wrong uses of the command line, as data: what is typed, and words of the one line that answers."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Wrong(NamedTuple):
    """A command line, split by blanks, and what the message must hold."""

    line: str
    words: str


SOLVE = "solve atoms.npy --objective squared-distance --target point.npy"
EXPLAIN = "explain atoms.npy --target 1"
MANY = "explain atoms.npy --targets other.npy"
UNMIX = "unmix other.npy --library atoms.npy"
HERD = "herd rows.csv -m 3"
BUILD = "index build atoms.npy -o new --kind int8"
MODEL = "policy solve atoms.npy --reward R.npy --transition P.npy"
RANDOM = "policy solve --states 3 --rows 20 --dim 3"
PLAN = "plan --n 1e4 --d 8"

FRAME = [
    Wrong("fly", "fly"),
    Wrong("--fly", "--fly"),
    Wrong("--threads 0 doctor", "--threads"),
    Wrong("--threads two doctor", "--threads"),
    Wrong("policy fly", "fly"),
    Wrong("index fly", "fly"),
    Wrong("demo --fly", "--fly"),
    Wrong("demo extra", "extra"),
    Wrong("demo --plot", "--plot"),
    Wrong("doctor --rounds 3", "--rounds"),
]

OVERWRITTEN = [
    Wrong(f"{HERD} -o rows.csv", "--out"),
    Wrong(f"{HERD} -o ./rows.csv", "--out"),
    Wrong(f"{HERD} -o link.csv", "--out"),
    Wrong(f"{HERD} -o hard.csv", "--out"),
    Wrong(f"{HERD} --target blank.csv -o blank.csv", "--out"),
    Wrong(f"{HERD} --exclude blank.csv -o blank.csv", "--out"),
    Wrong("herd row?.csv -m 3 -o rows.csv", "--out"),
    Wrong(f"{SOLVE} --report atoms.npy", "--report"),
    Wrong(f"{SOLVE} --report x.html --plot x.html", "--report"),
    Wrong(f"{SOLVE} --out atoms.npy", "--out"),
    Wrong(f"{SOLVE} --out point.npy", "--out"),
    Wrong(
        "solve atoms.npy,part.npy --objective squared-distance --target point.npy --out atoms.npy", "--out"
    ),
    Wrong(f"{SOLVE} --save .", "--save"),
    Wrong(f"{SOLVE} --save same.png --plot same.png", "--plot"),
    Wrong(f"{EXPLAIN} --out atoms.npy", "--out"),
    Wrong("explain rows.npz:a --target 1 --out other.npy --names other.npy", "--out"),
    Wrong(f"{MANY} --summary other.npy", "--summary"),
    Wrong(f"{MANY} --out all.csv --summary all.csv", "--summary"),
    Wrong(f"{MANY} --save .", "--save"),
    Wrong(f"{UNMIX} --out other.npy", "--out"),
    Wrong(f"{UNMIX} --save atoms.npy", "--save"),
    Wrong("index build atoms.npy -o atoms.npy", "--out"),
    Wrong(f"{MODEL} --out P.npy", "--out"),
    Wrong("plan pool.png --plot pool.png", "--plot"),
]

UNWRITABLE = [
    Wrong(f"{HERD} -o missing/out.csv", "--out"),
    Wrong(f"{HERD} -o rows.csv/out.csv", "--out"),
    Wrong(f"{HERD} -o /proc/out.csv", "--out"),
    Wrong(f"{HERD} -o folder.csv", "--out"),
    Wrong(f"{HERD} -o out.xls", "--out"),
    Wrong(f"{HERD} -o loop.csv", "--out"),
    Wrong(f"{HERD} -o {'n' * 240}.csv", "--out"),
    Wrong(f"{HERD} --save rows.csv/run", "--save"),
    Wrong(f"{HERD} --save kept", "--save"),
    Wrong(f"{SOLVE} --out folder.npy", "--out"),
    Wrong(f"{SOLVE} --plot run.txt", "--plot"),
    Wrong(f"{SOLVE} --plot folder.png", "--plot"),
    Wrong(f"{SOLVE} --report run.pdf", "--report"),
    Wrong(f"{HERD} --report missing/run.html", "--report"),
    Wrong("plan --n 1e6 --d 8 --report /proc/run.html", "--report"),
    Wrong(f"{SOLVE} --save /proc/run", "--save"),
    Wrong(f"{SOLVE} --save kept", "--save"),
    Wrong(f"{EXPLAIN} --out /proc/out.json", "--out"),
    Wrong(f"{EXPLAIN} --plot missing/gaps.png", "--plot"),
    Wrong(f"{MANY} --save kept", "--save"),
    Wrong(f"{MANY} --save /proc/run", "--save"),
    Wrong(f"{MANY} --summary all.txt", "--summary"),
    Wrong(f"{MANY} --summary missing/all.csv", "--summary"),
    Wrong(f"{UNMIX} --save kept", "--save"),
    Wrong(f"{UNMIX} --summary folder.csv", "--summary"),
    Wrong(f"{UNMIX} --out fractions.png", "--out"),
    Wrong(f"{UNMIX} --plot map.csv", "--plot"),
    Wrong("index build atoms.npy -o kept", "--out"),
    Wrong("index build atoms.npy -o /proc/index", "--out"),
    Wrong(f"{MODEL} --save kept", "--save"),
    Wrong(f"{PLAN} --plot /proc/plan.png", "--plot"),
    Wrong("demo --plot folder.png", "--plot"),
]

DESIGNS = [
    Wrong("design", "CANDIDATES"),
    Wrong("design no.csv", "no.csv"),
    Wrong("design atoms.npy --factor a=1,2", "--factor"),
    Wrong("design --factor a", "--factor"),
    Wrong("design --factor a=", "--factor"),
    Wrong("design --factor a=1,2 --factor a=3,4", "--factor"),
    Wrong("design --factor a=1,1,2", "levels of a"),
    Wrong("design --factor a=1,2 --columns a", "--columns"),
    Wrong("design atoms.npy --columns a", "columns"),
    Wrong("design rows.csv --columns a,zz", "zz"),
    Wrong("design atoms.npy --model cubic", "--model"),
    Wrong("design atoms.npy --criterion e", "--criterion"),
    Wrong("design atoms.npy --region atoms.npy", "--region"),
    Wrong("design atoms.npy --runs 0", "--runs"),
    Wrong("design atoms.npy --runs 3", "aliased terms"),
    Wrong("design atoms.npy --given atoms.npy", "--runs"),
    Wrong("design atoms.npy --given short.npy --runs 4", "--given"),
    Wrong("design atoms.npy --exclude 99", "--exclude"),
    Wrong("design atoms.npy --exclude x", "--exclude"),
    Wrong("design atoms.npy --efficiency 1", "--efficiency"),
    Wrong("design atoms.npy --max-passes -1", "--max-passes"),
    Wrong("design atoms.npy --out atoms.npy", "--out"),
    Wrong("design atoms.npy --out plan.txt", "--out"),
    Wrong("design atoms.npy --plot plan.csv", "--plot"),
    Wrong("design atoms.npy --save kept", "--save"),
    Wrong("design hole.npy", "nan"),
    Wrong("design --factor a=0,1 --factor b=0,1 --model quadratic", "a ~ a^2; b ~ b^2"),
    Wrong("design --factor a=1 --model linear", "1 ~ a"),
]

FILES = [
    Wrong("solve --objective mixture", "ATOMS"),
    Wrong("explain no.npy --target 1", "no.npy"),
    Wrong("explain no-*.npy --target 1", "no-*.npy"),
    Wrong("explain kept --target 1", "kept"),
    Wrong("explain empty.npy --target 1", "empty"),
    Wrong("explain claims.npy --target 1", "claims.npy"),
    Wrong("explain claims.npz --target 1", "claims.npz"),
    Wrong("explain text.npy --target 1", "text.npy"),
    Wrong("explain objects.npy --target 1", "objects.npy"),
    Wrong("explain line.npy --target 1", "(3,)"),
    Wrong("explain hole.npy --target 1", "nan"),
    Wrong("explain rows.npz:b --target 1", "rows.npz"),
    Wrong("explain atoms.npy --targets no.npy", "no.npy"),
    Wrong("explain atoms.npy --targets empty.npy", "empty.npy"),
    Wrong("explain atoms.npy --targets claims.npy", "claims.npy"),
    Wrong("explain atoms.npy --targets text.npy", "text.npy"),
    Wrong("explain atoms.npy --targets objects.npy", "objects.npy"),
    Wrong("explain atoms.npy --targets line.npy", "(3,)"),
    Wrong("explain atoms.npy --targets hole.npy", "nan"),
    Wrong("explain atoms.npy --targets huge.npy", "--targets"),
    Wrong("explain huge.npy --targets atoms.npy", "ATOMS"),
    Wrong("unmix no.npy --library atoms.npy", "no.npy"),
    Wrong("unmix claims.npy --library atoms.npy", "claims.npy"),
    Wrong("unmix text.npy --library atoms.npy", "text.npy"),
    Wrong("unmix objects.npy --library atoms.npy", "objects.npy"),
    Wrong("unmix hole.npy --library atoms.npy", "--skip"),
    Wrong("unmix other.npy --library no.npy", "no.npy"),
    Wrong("unmix other.npy --library hole.npy", "--library"),
    Wrong("herd blank.csv -m 1 --missing error", "the first in row 0: a (1)."),
    Wrong("herd twice.csv -m 1", "distinct"),
    Wrong("herd words.csv -m 1 --numeric-only", "can count"),
    Wrong("herd latin.csv -m 1", "UTF-8"),
    Wrong("herd quote.csv -m 1", "quote.csv"),
    Wrong("herd short.csv -m 1", "3 cells"),
    Wrong("herd huge.npy -m 2", "ATOMS"),
    Wrong("herd huge.npy -m 2 --kernel linear", "ATOMS"),
    Wrong("herd huge.npy -m 2 --standardize", "ATOMS"),
    Wrong("explain huge.npy --target 1", "--target"),
    Wrong("solve huge.npy --objective squared-distance --target point.npy", "ATOMS"),
    Wrong("index build huge.npy -o new --kind clusters", "ATOMS"),
    Wrong("index info atoms.npy", "atoms.npy"),
    Wrong("index info no", "no"),
    Wrong("index info kept", "No such file"),
    Wrong("index check kept no.npy", "no.npy"),
    Wrong("index query kept no.npy atoms.npy", "no.npy"),
    Wrong("index query no atoms.npy atoms.npy", "no"),
    Wrong("index append kept atoms.npy no.npy", "No such file"),
    Wrong("index remove kept atoms.npy --ids 1", "No such file"),
    Wrong("index remove kept atoms.npy --ids x", "--ids"),
]

VALUES = [
    Wrong("solve atoms.npy", "--objective"),
    Wrong("solve atoms.npy --objective cubic", "--objective"),
    Wrong("solve atoms.npy --objective squared-distance", "--target"),
    Wrong("solve atoms.npy --objective squared-distance --target R.npy", "R.npy"),
    Wrong("solve atoms.npy --objective squared-distance --target line.npy", "5"),
    Wrong("solve atoms.npy --objective logistic --design R.npy", "--labels"),
    Wrong("solve atoms.npy --objective huber --design R.npy --response line.npy --delta 0", "--delta"),
    Wrong(f"{SOLVE} --labels point.npy", "--labels"),
    Wrong(f"{SOLVE} --checkpoint kept", "--checkpoint"),
    Wrong(f"{SOLVE} --checkpoint atoms.npy", "--checkpoint"),
    Wrong("explain atoms.npy --target 1 --target 2 --checkpoint new", "--checkpoint"),
    Wrong(f"{SOLVE} --method newton", "--method"),
    Wrong(f"{SOLVE} --step short-step", "--step"),
    Wrong(f"{SOLVE} --lazy", "--lazy"),
    Wrong(f"{SOLVE} --rtol -1", "--rtol"),
    Wrong(f"{SOLVE} --rtol nan", "--rtol"),
    Wrong(f"{SOLVE} --rtol small", "--rtol"),
    Wrong(f"{SOLVE} --atol -1", "--atol"),
    Wrong(f"{SOLVE} --max-steps -1", "--max-steps"),
    Wrong(f"{SOLVE} --max-passes nan", "--max-passes"),
    Wrong(f"{SOLVE} --max-seconds -1", "--max-seconds"),
    Wrong(f"{SOLVE} --top -1", "--top"),
    Wrong(f"{SOLVE} --seed -1", "--seed"),
    Wrong(f"{SOLVE} --exclude x", "--exclude"),
    Wrong(f"{SOLVE} --exclude -3", "--exclude"),
    Wrong(f"{SOLVE} --exclude {'9' * 5000}", "--exclude"),
    Wrong(f"{SOLVE} --exclude 40", "--exclude"),
    Wrong(f"{SOLVE} --exclude 1 --exclude 1", "--exclude"),
    Wrong(f"{SOLVE} --names rows.csv", "--names"),
    Wrong("explain atoms.npy", "--target"),
    Wrong("explain atoms.npy --target 40", "--target"),
    Wrong("explain atoms.npy --targets short.npy", "--targets"),
    Wrong("explain atoms.npy --targets atoms.npy --target 1", "--targets"),
    Wrong("explain atoms.npy --targets R.npy --exclude-self", "--exclude-self"),
    Wrong(f"{EXPLAIN} --rtol inf --max-seconds nan", "--max-seconds"),
    Wrong(f"{EXPLAIN} --summary all.csv", "--summary"),
    Wrong(f"{EXPLAIN} --save run", "--save"),
    Wrong(f"{EXPLAIN} --skip", "--skip"),
    Wrong(f"{MANY} --rtol -1", "--rtol"),
    Wrong(f"{MANY} --max-seconds nan", "--max-seconds"),
    Wrong(f"{MANY} --names rows.csv", "--names"),
    Wrong("unmix other.npy", "--library"),
    Wrong("unmix short.npy --library atoms.npy", "CUBE"),
    Wrong("unmix line.npy --library atoms.npy", "CUBE"),
    Wrong(f"{UNMIX} --max-atoms 0", "--max-atoms"),
    Wrong(f"{UNMIX} --rtol nan", "--rtol"),
    Wrong(f"{UNMIX} --max-seconds -1", "--max-seconds"),
    Wrong(f"{UNMIX} --seed -1", "--seed"),
    Wrong("herd rows.csv", "--size"),
    Wrong("herd rows.csv -m 0", "--size"),
    Wrong("herd rows.csv -m 41", "-m"),
    Wrong("herd rows.csv -m three", "--size"),
    Wrong(f"{HERD} --columns z", "--columns"),
    Wrong(f"{HERD} --columns a --columns a", "--columns"),
    Wrong(f"{HERD} --columns ,", "--columns"),
    Wrong("herd atoms.npy -m 3 --columns a", "--columns"),
    Wrong(f"{HERD} --by z", "--by"),
    Wrong(f"{HERD} --by line.npy", "--by"),
    Wrong(f"{HERD} --balanced", "--balanced"),
    Wrong(f"{HERD} --start 1,1", "--start"),
    Wrong(f"{HERD} --start 1.5", "--start"),
    Wrong(f"{HERD} --exclude 99", "--exclude"),
    Wrong(f"{HERD} --kernel cauchy", "--kernel"),
    Wrong(f"{HERD} --kernel stein", "--scores"),
    Wrong(f"{HERD} --scores atoms.npy", "--scores"),
    Wrong(f"{HERD} --kernel linear --lengthscale 1", "--lengthscale"),
    Wrong(f"{HERD} --lengthscale 0", "--lengthscale"),
    Wrong(f"{HERD} --lengthscale nan", "--lengthscale"),
    Wrong(f"{HERD} --lengthscale 1e-300", "lengthscale"),
    Wrong(f"{HERD} --target atoms.npy", "--target"),
    Wrong(f"{HERD} --candidates 0", "--candidates"),
    Wrong(f"{HERD} --max-seconds -1", "--max-seconds"),
    Wrong("index build atoms.npy", "--out"),
    Wrong(f"{BUILD} --kind tree", "--kind"),
    Wrong(f"{BUILD} --queries 5", "--queries"),
    Wrong(f"{BUILD} --ratio 0.5", "--ratio"),
    Wrong("index build atoms.npy -o new --ratio nan", "--ratio"),
    Wrong("index build atoms.npy -o new --queries 0", "--queries"),
    Wrong("index check kept atoms.npy --queries 0", "--queries"),
    Wrong("policy solve --reward R.npy", "--reward"),
    Wrong("policy solve atoms.npy --reward R.npy", "--transition"),
    Wrong("policy solve atoms.npy --reward R.npy --transition rows.csv", "--transition"),
    Wrong("policy solve atoms.npy --reward R.npy --transition empty.npy", "empty"),
    Wrong(f"{MODEL} --gamma 1", "--gamma"),
    Wrong(f"{MODEL} --curvature -1", "--curvature"),
    Wrong(f"{MODEL} --centres R.npy", "--centres"),
    Wrong(f"{RANDOM} --rows 1.5", "--rows"),
    Wrong(f"{RANDOM} --rows 1e300", ""),
    Wrong(f"{RANDOM} --states 0", "--states"),
    Wrong(f"{RANDOM} --dim 0", "--dim"),
    Wrong(f"{RANDOM} --search tree", "--search"),
    Wrong(f"{RANDOM} --step long", "--step"),
    Wrong(f"{RANDOM} --search int8 --ratio 2", "--ratio"),
    Wrong(f"{RANDOM} --rtol nan", "--rtol"),
    Wrong(f"{RANDOM} --atol -1", "--atol"),
    Wrong(f"{RANDOM} --max-steps nan", "--max-steps"),
    Wrong("plan", "ATOMS"),
    Wrong("plan --n 10", "--d"),
    Wrong("plan --n 1e400 --d 3", "--n"),
    Wrong("plan atoms.npy --n 10 --d 3", "--n"),
    Wrong(f"{PLAN} --ratio 1.5", "--ratio"),
    Wrong(f"{PLAN} --tau 1", "--tau"),
    Wrong(f"{PLAN} --delta 0", "--delta"),
    Wrong(f"{PLAN} --queries 0.5", "--queries"),
    Wrong(f"{PLAN} --atol 0", "--atol"),
    Wrong(f"{PLAN} --first 1", "--first"),
    Wrong(f"{PLAN} --smoothness 2", "--smoothness"),
    Wrong(f"{PLAN} --batch 0", "--batch"),
]

COMMANDS = [*FRAME, *OVERWRITTEN, *UNWRITABLE, *DESIGNS, *FILES, *VALUES]

IN_A_PROCESS = [
    FRAME[0],
    OVERWRITTEN[0],
    OVERWRITTEN[7],
    UNWRITABLE[3],
    FILES[5],
    FILES[18],
    VALUES[0],
    VALUES[52],
]
"""A sample that is run as a user runs it."""


def make_files(folder: Path) -> None:
    """Write all files that the commands name."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 5))
    arrays = {
        "atoms": rows,
        "other": rows,
        "point": np.full(5, 3.0),
        "line": np.ones(3),
        "short": rows[:, :2],
    }
    arrays |= {"R": rng.random((3, 5)), "P": np.full((3, 5, 3), 1.0 / 3.0), "huge": 1e158 * rows}
    arrays |= {"hole": np.where(rows > 2.0, np.nan, rows)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "rows.npz", a=rows)
    np.save(folder / "objects.npy", np.array([{}], object), allow_pickle=True)
    claim = (folder / "atoms.npy").read_bytes()[:128].replace(b"(40, 5), }        ", b"(4000000000, 5), }")
    (folder / "claims.npy").write_bytes(claim + b"12345678")
    with zipfile.ZipFile(folder / "claims.npz", "w") as file:
        file.writestr("a.npy", claim + b"12345678")
    texts = {
        "rows.csv": "name,a,b\n" + "".join(f"r{i},{x:.6f},{y:.6f}\n" for i, (x, y) in enumerate(rows[:, :2])),
        "blank.csv": "name,a,b\nr0,,1\nr1,2,3\nr2,4,5\n",
        "twice.csv": "a,a\n1,2\n",
        "words.csv": "a,b\nx,y\n",
        "quote.csv": 'a,b\n1,"2\n',
        "short.csv": "name,a,b\nr0,1\nr1,2,3\nr2,3,4\n",
        "text.npy": "no numbers",
        "pool.png": "no picture",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("name,a\né,1\n".encode("latin-1"))
    (folder / "empty.npy").touch()
    for name in ("folder.csv", "folder.npy", "folder.png", "kept"):
        (folder / name).mkdir()
    (folder / "kept" / "thesis.txt").write_text("all of it")
    (folder / "link.csv").symlink_to("rows.csv")
    (folder / "loop.csv").symlink_to("loop.csv")
    os.link(folder / "rows.csv", folder / "hard.csv")


def contents(folder: Path) -> dict[str, object]:
    """All that a folder holds: where links lead, and the bytes of files."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else _bytes(path)
        for path in sorted(folder.rglob("*"))
    }


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
