//! Commands in a sandbox that was really opened: what one call writes the next one sees, and the user's tree
//! does not.

use domain::RootIndex;
use sandbox::command::{CommandSpec, ExitKind};
use sandbox::isolation::{Isolation, IsolationBackend};
use sandbox::view::SandboxView;
use sandbox::{OpenRequest, RootSpec, Sandbox, SandboxStrategy, StrategyChoice};

use super::command_stage::{CommandFixture, as_root_and_ordinary, child, shown, text};

fn open(stage: &CommandFixture, rung: SandboxStrategy) -> Sandbox {
    let roots = vec![RootSpec { no: RootIndex(0), path: stage.path("project"), read_only: false }];
    let dir = stage.path("sandboxes/plan-1");
    sandbox::open(OpenRequest { dir, roots, choice: StrategyChoice::Only(rung), include: Vec::new() })
        .unwrap()
}

fn run(stage: &CommandFixture, rung: IsolationBackend, view: SandboxView, script: &str) -> String {
    let ended = Isolation::only(rung, child()).start(view, stage.shell(script)).unwrap().wait();
    assert_eq!(ended.how, ExitKind::Exited(0), "{rung}: {}", text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn one_call_sees_what_the_last_one_wrote_and_the_user_does_not() {
    as_root_and_ordinary(
        "cases::isolation_overlay::one_call_sees_what_the_last_one_wrote_and_the_user_does_not",
        || {
            for opened in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
                for rung in [IsolationBackend::Namespaces, IsolationBackend::Landlock, IsolationBackend::None]
                {
                    let stage = CommandFixture::new();
                    let sandbox = open(&stage, opened);
                    let write = "cat file; mkdir -p a/b; echo new > a/b/new; mv file a/moved; rm -rf none";
                    assert_eq!(run(&stage, rung, sandbox.view().unwrap(), write), "the user's\n");
                    let read = "cat a/b/new a/moved; test ! -e file; pwd";
                    let seen = run(&stage, rung, sandbox.view().unwrap(), read);
                    let place = match (opened, rung) {
                        // Without mounts, a copy is where it is.
                        (SandboxStrategy::Copy, IsolationBackend::Landlock | IsolationBackend::None) => None,
                        _ => Some(shown(&stage.path("project"))),
                    };
                    let mut lines = seen.lines();
                    assert_eq!(
                        (lines.next(), lines.next()),
                        (Some("new"), Some("the user's")),
                        "{opened:?} {rung}"
                    );
                    assert!(
                        place.is_none_or(|place| lines.next() == Some(&place)),
                        "{opened:?} {rung}: {seen}"
                    );
                    assert_eq!(std::fs::read_to_string(stage.path("project/file")).unwrap(), "the user's\n");
                    assert!(!stage.path("project/a").exists());
                    sandbox.close().unwrap();
                }
            }
        },
    );
}

#[test]
fn the_sandboxs_own_directory_can_be_hidden_from_its_commands() {
    as_root_and_ordinary(
        "cases::isolation_overlay::the_sandboxs_own_directory_can_be_hidden_from_its_commands",
        || {
            let data = tempfile::tempdir_in("/var/tmp").unwrap();
            for opened in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
                let stage = CommandFixture::at(data.path());
                std::fs::create_dir_all(stage.path("project")).unwrap();
                std::fs::write(stage.path("project/file"), "the user's\n").unwrap();
                let sandbox = open(&stage, opened);
                let sandboxes = stage.path("sandboxes");
                let spec = CommandSpec {
                    hide: vec![sandboxes.clone()],
                    ..stage.shell(&format!("ls -A {}; cat file; echo x > made; cat made", shown(&sandboxes)))
                };
                let running = Isolation::only(IsolationBackend::Namespaces, child())
                    .start(sandbox.view().unwrap(), spec)
                    .unwrap();
                assert_eq!(text(&running.wait().stdout), "the user's\nx\n", "{opened:?}");
                sandbox.close().unwrap();
            }
        },
    );
}

#[test]
fn what_is_written_in_a_layer_is_not_in_the_sandbox() {
    as_root_and_ordinary(
        "cases::isolation_overlay::what_is_written_in_a_layer_is_not_in_the_sandbox",
        || {
            let stage = CommandFixture::new();
            let sandbox = open(&stage, SandboxStrategy::Overlay);
            run(&stage, IsolationBackend::Namespaces, sandbox.view().unwrap(), "echo one > written");
            let layer = sandbox.layer().unwrap();
            let printed = run(
                &stage,
                IsolationBackend::Namespaces,
                layer.view().unwrap(),
                "cat written file; echo two > written; touch made",
            );
            assert_eq!(printed, "one\nthe user's\n");
            drop(layer);
            let printed =
                run(&stage, IsolationBackend::Namespaces, sandbox.view().unwrap(), "cat written; ls");
            assert_eq!(printed, "one\nfile\nwritten\n");
            sandbox.close().unwrap();
        },
    );
}
