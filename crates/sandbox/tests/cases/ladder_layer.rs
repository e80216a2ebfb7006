//! A layer shows the plan's tree, and what is written in it is gone afterwards.

use sandbox::{LayerError, SandboxStrategy};

use super::ladder_stage::{SandboxFixture, as_root_and_as_user, between, file, run, run_in};

#[test]
fn what_is_written_in_a_layer_never_reaches_the_sandbox() {
    as_root_and_as_user("cases::ladder_layer::what_is_written_in_a_layer_never_reaches_the_sandbox", || {
        let stage = SandboxFixture::new();
        stage.write("a", "one\n");
        stage.write("d/x", "x\n");
        let mut sandbox = stage.open(SandboxStrategy::Overlay);
        run(&sandbox, "echo two >> a; rm d/x; echo new > d/n");
        let expected = [
            between("a", file("one\n"), file("one\ntwo\n")),
            between("d/n", None, file("new\n")),
            between("d/x", file("x\n"), None),
        ];
        assert_eq!(stage.drafts(&mut sandbox), expected);
        let (one, two) = (sandbox.layer().unwrap(), sandbox.layer().unwrap());
        run_in(
            one.view().unwrap(),
            "test \"$(cat a)\" = \"$(printf 'one\\ntwo')\"; test ! -e d/x; test -e d/n
            echo three >> a; rm -r d; mkdir d; echo built > built",
        );
        run_in(two.view().unwrap(), "test ! -e built; test -e d/n; echo other > a");
        run_in(one.view().unwrap(), "test -e built; test ! -e d/n");
        drop((one, two));
        assert_eq!(stage.drafts(&mut sandbox), []);
        run(&sandbox, "test ! -e built; test -e d/n; test $(wc -l < a) = 2");
        let left: Vec<String> = std::fs::read_dir(sandbox.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("layer"))
            .collect();
        assert_eq!(left, [""; 0]);
    });
}

#[test]
fn other_rungs_have_no_layer_and_say_so() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    for rung in [SandboxStrategy::Copy, SandboxStrategy::InPlace] {
        let LayerError::Unavailable { why } = stage.open(rung).layer().unwrap_err();
        assert!(why.contains(rung.as_str()), "{why}");
    }
}
