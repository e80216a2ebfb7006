//! The shapes of changes that applies, undos, recoveries and captures are struck in: what is there, and what
//! a plan does.

/// A tree and a change, both as shell scripts that run in the project.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) before: &'static str,
    pub(crate) change: &'static str,
}

const fn shape(name: &'static str, before: &'static str, change: &'static str) -> Shape {
    Shape { name, before, change }
}

const TREE: &str =
    "mkdir -p d/e; for n in 1 2 3 4; do echo line $n > f$n; echo in $n > d/g$n; done; echo deep > d/e/h";
const PROGRAMS: &str = "for n in 1 2 3; do printf '#!/bin/sh\\necho %s\\n' $n > p$n; chmod 755 p$n; done; chmod 4755 p1; chmod 6755 p2; chmod 1644 p3";
const LINKS: &str = "mkdir -p real other; echo one > real/f; echo two > other/f; ln -s real lnk; ln -s real/f file; ln -s nowhere dead";
const LARGE: &str = "head -c 3000000 /dev/zero | tr '\\0' a > big; head -c 700000 /dev/zero | tr '\\0' b > mid; echo small > small";
const NAMED: &str = "mkdir -p store; echo one > a; ln a b; echo two > c; ln c store/c; echo three > x";

/// All of them.
pub(crate) const SHAPES: [Shape; 44] = [
    shape("edit", TREE, "for f in f*; do echo more >> $f; done"),
    shape("shorten", TREE, "for f in f* d/g*; do printf x > $f; done"),
    shape("create", TREE, "for n in 1 2 3 4 5; do echo new $n > n$n; done"),
    shape("delete", TREE, "rm f1 f2 d/g1 d/e/h"),
    shape("rename", TREE, "mv f1 r1; mv f2 d/r2; mv d/g1 r3"),
    shape("rename and edit", TREE, "mv f1 r1; echo more >> r1; mv d/g2 r2; printf x > r2"),
    shape("swap", TREE, "mv f1 t; mv f2 f1; mv t f2; mv d/g1 t; mv d/g2 d/g1; mv t d/g2"),
    shape("move a directory", TREE, "mv d moved; echo more >> moved/g1"),
    shape("remove a directory", TREE, "rm -r d"),
    shape("make directories", TREE, "mkdir -p a/b/c; echo x > a/b/c/x; echo y > a/y; mkdir empty"),
    shape(
        "directories with modes",
        TREE,
        "mkdir -m 700 private; echo k > private/k; mkdir -m 2775 shared; echo s > shared/s; mkdir -m 1777 drop",
    ),
    shape("modes of directories", TREE, "chmod 700 d; chmod 2755 d/e; echo more >> d/g1"),
    shape("closed directories", TREE, "echo x > d/x; rm d/g1; chmod 500 d/e; chmod 555 d"),
    shape("modes", TREE, "chmod 755 f1; chmod 600 f2; chmod 666 f3; chmod 000 f4"),
    shape(
        "modes and contents",
        TREE,
        "for f in f1 f2 f3; do echo more >> $f; chmod 640 $f; done; echo z >> f4; chmod 000 f4",
    ),
    shape(
        "set-id programs are edited",
        PROGRAMS,
        "for p in p1 p2 p3; do echo 'echo more' >> $p; done; chmod 4755 p1; chmod 6755 p2; chmod 1644 p3",
    ),
    shape(
        "set-id programs are shortened",
        PROGRAMS,
        "for p in p1 p2; do printf x > $p; done; chmod 4755 p1; chmod 6755 p2",
    ),
    shape("set-id bits go", PROGRAMS, "chmod 755 p1; echo more >> p2; chmod 644 p3"),
    shape("set-id programs move", PROGRAMS, "mv p1 q1; mv p2 q2; rm p3"),
    shape("links turn", LINKS, "ln -sfn other lnk; ln -sf other/f file; rm dead"),
    shape("links are made", TREE, "ln -s f1 l1; ln -s nowhere l2; ln -s d l3"),
    shape(
        "a link becomes a directory",
        LINKS,
        "rm lnk; mkdir lnk; echo new > lnk/f; mkdir lnk/sub; echo deep > lnk/sub/x",
    ),
    shape("a directory becomes a link", TREE, "rm -r d; ln -s . d"),
    shape("a link becomes a file", LINKS, "rm file; echo real > file; rm lnk; echo real > lnk"),
    shape("a file becomes a link", TREE, "rm f1; ln -s f2 f1; rm d/g1; ln -s ../f3 d/g1"),
    shape(
        "a file becomes a directory",
        TREE,
        "rm f1; mkdir f1; echo in > f1/in; rm d/g1; mkdir -m 700 d/g1; echo k > d/g1/k",
    ),
    shape("a directory becomes a file", TREE, "rm -r d; echo file > d"),
    shape(
        "a directory is made anew",
        TREE,
        "rm -r d; mkdir -m 750 d; echo anew > d/g1; mkdir d/e; echo other > d/e/i",
    ),
    shape("both change places", LINKS, "rm -r real; ln -s other real; rm lnk; mkdir lnk; echo x > lnk/x"),
    shape("hard links together", NAMED, "echo more >> a; echo more >> b"),
    shape("hard links elsewhere", NAMED, "echo more >> c; chmod 600 x"),
    shape("hard links are removed", NAMED, "rm b; echo more >> x; rm store/c"),
    shape(
        "odd names",
        "echo 1 > 'a b'; echo 2 > \"q'q\"; echo 3 > \"$(printf 'n\\nl')\"; echo 4 > \"$(printf '\\377x')\"; echo 5 > -- ",
        "for f in *; do echo more >> \"./$f\"; done; mv ./'a b' \"$(printf 't\\tt')\"; rm -- ./--",
    ),
    shape(
        "names beside names",
        TREE,
        "mkdir d.x; echo 1 > d.x/a; echo 2 > d-; echo 3 > 'd '; rm -r d; echo 4 > f1.f; rm f1",
    ),
    shape("large files", LARGE, "head -c 3500000 /dev/zero | tr '\\0' c > big; printf y >> mid"),
    shape("large files shrink", LARGE, "head -c 1200000 /dev/zero | tr '\\0' c > big; rm mid"),
    shape(
        "large files come and go",
        LARGE,
        "mv big moved; head -c 2200000 /dev/zero | tr '\\0' d > new; rm small",
    ),
    shape(
        "binaries",
        "head -c 9000 /dev/zero > z; printf 'a\\0b' > n; echo t > t",
        "printf 'a\\0c' > n; head -c 100 /dev/zero > z; printf '\\0' > t",
    ),
    shape("empty files", "touch e1 e2; echo x > f", "echo full > e1; rm e2; : > f; touch e3"),
    shape(
        "no newline at the end",
        "printf 'a\\nb' > f; printf 'a\\r\\nb\\r\\n' > g",
        "printf 'a\\nb\\n' > f; printf 'a\\r\\nc' > g",
    ),
    shape(
        "read-only files",
        "echo 1 > r1; echo 2 > r2; chmod 444 r1; chmod 400 r2",
        "chmod 644 r1; echo more >> r1; chmod 444 r1; rm -f r2; echo new > r2; chmod 400 r2",
    ),
    shape(
        "many small files",
        "mkdir m; for n in $(seq 60); do echo $n > m/$n; done",
        "for n in $(seq 60); do echo more >> m/$n; done; for n in $(seq 61 90); do echo $n > m/$n; done",
    ),
    shape(
        "many go",
        "mkdir m; for n in $(seq 40); do echo $n > m/$n; done",
        "rm -r m; mkdir k; for n in $(seq 30); do echo $n > k/$n; done",
    ),
    shape(
        "everything at once",
        TREE,
        "echo more >> f1; rm f2; mv f3 r3; chmod 600 f4; ln -s f1 l; mkdir -m 700 n; echo x > n/x; rm -r d/e; echo file > d/e; mkdir d2; mv d/g1 d2/g; rm d/g2; mkdir d/g2; echo in > d/g2/in",
    ),
];
