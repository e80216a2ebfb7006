//! The context of a model: real repositories, real processes, real kills.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use domain::Hash;
use engine::context::{LexicalCounter, TokenCounter};
use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, answer};

/// A shop whose checkout forgets a discount, with a history.
fn shop() -> TestUser {
    let person = TestUser::new();
    person.write("src/checkout.rs", CHECKOUT);
    person.write("src/discount.rs", "/// What a voucher takes off the total.\npub fn discount(code: &str) -> u32 {\n    if code == \"SPRING\" { 10 } else { 0 }\n}\n");
    person.write("src/mail.rs", "pub fn send_receipt(address: &str) -> bool {\n    !address.is_empty()\n}\n");
    person.write("README.md", "# Shop\n\nSells things.\n\n## Checkout\n\nA voucher is a discount.\n");
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "checkout with vouchers"]);
    person
        .write("src/mail.rs", "pub fn send_receipt(address: &str) -> bool {\n    address.contains('@')\n}\n");
    person.git(&["commit", "-qam", "mail: an address has an at"]);
    person
}

const CHECKOUT: &str = "use crate::discount::discount;\n\n/// The total of a cart.\npub fn total(prices: &[u32], code: &str) -> u32 {\n    let sum: u32 = prices.iter().sum();\n    sum - discount(code)\n}\n\npub fn is_empty(prices: &[u32]) -> bool {\n    prices.is_empty()\n}\n";

const QUERY: &str = "why is the voucher discount wrong at checkout";

fn index_files(person: &TestUser) -> Vec<PathBuf> {
    let found = fs::read_dir(person.home().join("data/index"));
    let mut files: Vec<PathBuf> =
        found.map(|dir| dir.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "sqlite"));
    files
}

fn notes(said: &CommandOutput) -> String {
    let envelope = said.envelope();
    let messages = envelope["messages"].as_array().unwrap().iter();
    messages.map(|note| note["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_text_alone_is_printed_and_never_costs_more_than_the_budget() {
    let person = shop();
    let counter = LexicalCounter::default();
    let mut longest = 0;
    for budget in [0, 1, 9, 40, 511, 512, 4096, 10_000_000] {
        let said = person.agents(&["context", "assemble", QUERY, "--budget", &budget.to_string()]);
        assert_eq!((said.exit, said.stderr.as_str()), (0, ""), "{budget}");
        let tokens = counter.tokens(&said.stdout);
        assert!(tokens <= budget, "{budget}: {tokens}\n{}", said.stdout);
        longest = tokens;
    }
    assert!(longest > 100, "{longest}");
    let said = person.agents(&["context", "assemble", QUERY, "--budget", "4k"]);
    let again = person.agents(&["context", "assemble", QUERY, "--budget", "4096"]);
    assert_eq!(said.stdout, again.stdout, "equal questions have equal answers");
    assert!(said.stdout.contains("## src/checkout.rs (rust, 11 lines)\n"), "{}", said.stdout);
    assert!(said.stdout.contains("    sum - discount(code)\n"), "lines are as they are: {}", said.stdout);
    let data = person.json(&["context", "assemble", QUERY, "--budget", "4k"]).data();
    assert_eq!(data["text"], json!(said.stdout));
    assert_eq!(data["receipt"]["budget"]["total"], json!(4096));
    assert_eq!(data["receipt"]["strategies"].as_array().unwrap().len(), 6, "every strategy has a line");
}

#[test]
fn a_query_comes_through_a_pipe_and_a_receipt_goes_to_a_file() {
    let person = shop();
    let mut command =
        person.command(&person.project(), &["context", "assemble", "-", "--receipt", "../r.json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(QUERY.as_bytes()).unwrap();
    let piped = CommandOutput::of(&child.wait_with_output().unwrap());
    let typed = person.agents(&["context", "assemble", QUERY]);
    assert_eq!((piped.exit, &piped.stdout), (0, &typed.stdout), "{}", piped.stderr);
    let receipt: Value = serde_json::from_str(&person.read("../r.json")).unwrap();
    let paths: Vec<&str> = receipt["included"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["place"]["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"src/checkout.rs") && paths.contains(&"src/discount.rs"), "{paths:?}");
    let cut = Command::new("sh")
        .arg("-c")
        .arg("\"$0\" context assemble 'voucher' | head -c 1 | wc -c")
        .arg(env!("CARGO_BIN_EXE_agents"))
        .current_dir(person.project())
        .env("CLEVERAGENTS_DATA_DIR", person.home().join("data"))
        .output()
        .unwrap();
    assert_eq!(
        CommandOutput::of(&cut),
        CommandOutput { exit: 0, stdout: "1\n".to_owned(), stderr: String::new() }
    );
}

#[test]
fn a_word_that_names_nothing_is_told_with_the_nearest_name_and_all_there_are() {
    let person = shop();
    for (args, exit, code, says) in [
        (
            vec!["--strategy", "simple-keywrd"],
            2,
            "STRATEGY_UNKNOWN",
            "; strategies are simple-keyword, breadth-depth-navigator, temporal-archaeology, plan-decision-context, semantic-embedding, arce; did you mean `simple-keyword`?",
        ),
        (
            vec!["--view", "executor"],
            2,
            "VIEW_UNKNOWN",
            "; views are default, strategize, execute; did you mean `execute`?",
        ),
        (
            vec!["--depth", "sigantures"],
            2,
            "DEPTH_UNKNOWN",
            "; depths are listing, outline, signatures, full; did you mean `signatures`?",
        ),
        (vec!["--focus", "src/chekout.rs"], 3, "FOCUS_NOT_FOUND", "did you mean `src/checkout.rs`?"),
        (vec!["--focus", "discont"], 3, "FOCUS_NOT_FOUND", "did you mean `discount`?"),
        (vec!["--focus", "src/mail.rs:900-999"], 3, "FOCUS_NOT_FOUND", "`src/mail.rs` has only 3 lines"),
        (vec!["--focus", "../../outside.rs"], 4, "PATH_ESCAPES", "is in none of the projects"),
        (vec!["--focus", "/etc/passwd"], 4, "PATH_ESCAPES", "is in none of the projects"),
        (vec!["--project", "nowhere"], 3, "PROJECT_NOT_FOUND", "cannot be entered"),
        (vec!["--plan", "01ABCDEFGH"], 3, "PLAN_NOT_FOUND", "there is no plan"),
        (vec!["--budget", "lots"], 2, "USAGE", "a whole number of tokens"),
    ] {
        let said = person.json(&[&["context", "assemble", "voucher"][..], &args].concat());
        assert_eq!((said.exit, said.code().as_str()), (exit, code), "{args:?}: {said:?}");
        assert!(said.envelope()["messages"].to_string().contains(says), "{args:?}: {said:?}");
    }
}

#[test]
fn a_symbol_that_is_everywhere_is_ambiguous_and_what_is_left_out_cannot_be_asked_for() {
    let person = shop();
    for no in 0..21 {
        person.write(&format!("many/m{no}.rs"), "pub fn twin() {}\n");
    }
    person.write(".cleveragents/config.toml", "[context]\nexclude = [\"src/mail.rs\"]\n");
    let said = person.json(&["context", "assemble", "x", "--focus", "twin"]);
    assert_eq!((said.exit, said.code().as_str()), (2, "FOCUS_AMBIGUOUS"), "{said:?}");
    let said = person.json(&["context", "assemble", "x", "--focus", "src/mail.rs"]);
    assert_eq!((said.exit, said.code().as_str()), (4, "FOCUS_EXCLUDED"), "{said:?}");
    let said = person.agents(&["context", "assemble", "address of a receipt mail"]);
    assert!(said.exit == 0 && !said.stdout.contains("send_receipt"), "{said:?}");
    let said = person.agents(&["context", "assemble", "x", "--focus", "total", "--budget", "300"]);
    assert!(said.stdout.contains("    sum - discount(code)\n"), "what is named is shown: {said:?}");
}

#[test]
fn settings_of_a_project_narrow_and_those_of_the_process_are_refused() {
    let person = shop();
    person.write(
        ".cleveragents/config.toml",
        "[context]\nmax_tokens = 60\nstrategies = [\"simple-keyword\"]\n",
    );
    let said = person.json(&["context", "assemble", QUERY, "--budget", "9000"]).data();
    assert_eq!(said["receipt"]["budget"]["total"], json!(60), "tighter than the command line asks");
    let ran: Vec<&Value> = said["receipt"]["strategies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["outcome"] == json!("ok"))
        .map(|line| &line["name"])
        .collect();
    assert_eq!(ran, [&json!("simple-keyword")]);
    person.write(".cleveragents/config.toml", "[context]\nmemory_mb = 1\n");
    let said = person.json(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, said.code().as_str()), (2, "CONFIG_NOT_ALLOWED_HERE"), "{said:?}");
    person.write(".cleveragents/config.toml", "[context]\nexclude = [\"src/[\"]\n");
    let said = person.json(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, said.code().as_str()), (2, "CONFIG_VALUE_INVALID"), "{said:?}");
    person.write(".cleveragents/config.toml", "");
    let set = person.agents(&[
        "config",
        "set",
        "context.index.max_file_kb=1",
        "context.weights.simple-keyword=0.5",
        "context.deadline=250ms",
    ]);
    assert_eq!(set.exit, 0, "{set:?}");
    assert_eq!(person.agents(&["config", "get", "context.deadline"]).stdout, "250ms\n");
    let data = person.json(&["context", "simulate", QUERY]).data();
    let keyword = data["receipts"][0]["strategies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["name"] == json!("simple-keyword"));
    assert_eq!(keyword.unwrap()["weight"], json!(0.5));
}

#[test]
fn secrets_are_listed_or_marked_and_never_shown() {
    let person = shop();
    let key = "AKIAIOSFODNN7EXAMPLE";
    person.write(".env", &format!("VOUCHER_KEY={key}\n"));
    person.write("src/keys.rs", &format!("pub const VOUCHER_KEY: &str = \"{key}\";\npub fn voucher_key() -> &'static str {{ VOUCHER_KEY }}\n"));
    let said =
        person.agents(&["context", "assemble", "voucher key", "--focus", ".env", "--focus", "src/keys.rs"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(!said.stdout.contains(key) && !said.stderr.contains(key), "{said:?}");
    assert!(said.stdout.contains("## .env (secret, not shown)\n"), "{said:?}");
    assert!(said.stdout.contains("pub fn voucher_key()"), "the rest of the file is there: {said:?}");
    let index = index_files(&person).pop().unwrap();
    let bytes = fs::read(index).unwrap();
    assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()), "nor kept in the index");
}

#[test]
fn a_project_with_nothing_to_read_has_an_empty_context_and_a_note() {
    let person = TestUser::new();
    let said = person.agents(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, said.stdout.as_str()), (0, ""), "{said:?}");
    assert!(said.stderr.contains("there are no files that may be seen"), "{said:?}");
    fs::write(person.project().join("a.bin"), b"\0\x01\x02").unwrap();
    let said = person.agents(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, said.stdout.as_str()), (0, ""), "{said:?}");
    let said = person.agents(&["context", "assemble", ""]);
    assert_eq!(said.exit, 0, "an empty query is a question too: {said:?}");
    person.write("a.rs", "fn a() {}\n");
    let said = person.agents(&["context", "assemble", "", "--budget", "200"]);
    assert!(said.exit == 0 && said.stdout.contains("## a.rs"), "a map of the project: {said:?}");
}

#[test]
fn a_file_that_git_ignores_is_shown_when_it_is_named() {
    let person = shop();
    person.write(".gitignore", "local/\n");
    person.write("local/notes.txt", "the voucher is for spring only\n");
    let said = person.agents(&["context", "assemble", "voucher in spring"]);
    assert!(!said.stdout.contains("local/notes.txt"), "{said:?}");
    let said = person.agents(&["context", "assemble", "voucher in spring", "--focus", "local/notes.txt"]);
    assert!(said.stdout.contains("the voucher is for spring only\n"), "{said:?}");
}

#[test]
fn a_plan_is_seen_with_what_it_changed_until_it_is_applied() {
    let person = shop();
    let plan = person.plan(
        "sed -i 's/sum - discount(code)/sum.saturating_sub(discount(code))/' src/checkout.rs; \
         echo 'pub fn refund_voucher() {}' > src/refund.rs; rm src/mail.rs; echo 'for refunds' > NOTES",
    );
    let ask = |extra: &[&str]| {
        let said =
            person.agents(&[&["context", "assemble", "voucher refund at checkout"][..], extra].concat());
        assert_eq!(said.exit, 0, "{said:?}");
        said.stdout
    };
    let (base, seen) = (ask(&[]), ask(&["--plan", &plan]));
    assert!(base.contains("sum - discount(code)") && !base.contains("refund_voucher"), "{base}");
    assert!(seen.contains("sum.saturating_sub(discount(code))") && seen.contains("refund_voucher"), "{seen}");
    assert!(!seen.contains("src/mail.rs"), "{seen}");
    assert!(!format!("{seen}{base}").contains("request_context"), "who reads this has no such tool");
    assert_eq!(ask(&[]), base, "nothing of the plan is in the index");
    assert!(ask(&["--plan", &plan, "--focus", "NOTES"]).contains("for refunds\n"), "by its name alone");
    assert_eq!(person.json(&["context", "inspect", "NOTES", "--plan", &plan]).data()["path"], json!("NOTES"));
    let said = person.json(&["context", "inspect", "refund_voucher", "--plan", &plan]);
    assert_eq!(said.data()["path"], json!("src/refund.rs"), "{said:?}");
    let said = person.agents(&["context", "index", "--verify"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert!(ask(&["--plan", &plan]).contains("refund_voucher"), "applied, it is in the files");
}

#[test]
fn two_projects_are_told_apart_by_their_names() {
    let person = shop();
    let other = person.home().join("lib");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("voucher.py"), "def voucher(code):\n    return code == 'SPRING'\n").unwrap();
    let said =
        person.agents(&["context", "assemble", "voucher", "--project", ".", "--project", "lib=../lib"]);
    assert!(said.stdout.contains("## lib:voucher.py") && said.stdout.contains("## shop:src/"), "{said:?}");
    let said = person.agents(&[
        "context",
        "assemble",
        "x",
        "--project",
        ".",
        "--project",
        "lib=../lib",
        "--focus",
        "lib:voucher.py",
    ]);
    assert!(said.stdout.contains("    return code == 'SPRING'\n"), "{said:?}");
}

#[test]
fn a_simulation_prints_the_receipt_and_no_text() {
    let person = shop();
    let said = person.agents(&["context", "simulate", QUERY, "--budget", "4096"]);
    assert_eq!((said.exit, said.stderr.as_str()), (0, ""), "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(
        lines[0].starts_with("index   4 files, 4 changed, ") && lines[0].ends_with("counter lexical"),
        "{said:?}"
    );
    let mut numbers =
        lines[1].split(|mark: char| !mark.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
    assert_eq!(numbers.next(), Some(4096));
    assert_eq!(numbers.sum::<u32>(), 4096, "the parts add up: {}", lines[1]);
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(has("strategy ") && has("simple-keyword ") && has("score  depth "), "{}", said.stdout);
    assert!(said.stdout.contains("unavailable: no embedding model configured"), "{}", said.stdout);
    assert!(
        said.stdout.contains("src/checkout.rs") && !said.stdout.contains("saturating"),
        "{}",
        said.stdout
    );
    assert!(!said.stdout.contains("sum - discount"), "no text: {}", said.stdout);
    let data = person.json(&["context", "simulate", QUERY, "--budgets", "1k,4k"]).data();
    let totals: Vec<&Value> =
        data["receipts"].as_array().unwrap().iter().map(|receipt| &receipt["budget"]["total"]).collect();
    assert_eq!(totals, [&json!(1024), &json!(4096)]);
}

#[test]
fn a_file_is_inspected_by_its_path_or_by_what_it_defines() {
    let person = shop();
    let by_path = person.json(&["context", "inspect", "src/discount.rs"]).data();
    let by_name = person.json(&["context", "inspect", "discount"]).data();
    assert_eq!(by_name["defined_at"], json!([{ "path": "src/discount.rs", "line": 2 }]));
    assert_eq!(
        (&by_path["path"], &by_path["language"], &by_path["lines"]),
        (&json!("src/discount.rs"), &json!("rust"), &json!(4))
    );
    assert_eq!(by_path["path"], by_name["path"]);
    assert_eq!(by_path["definitions"][0]["name"], json!("discount"));
    let user = json!({ "path": "src/checkout.rs", "names": by_path["referred_by"][0]["names"], "weight": by_path["referred_by"][0]["weight"] });
    assert_eq!(by_path["referred_by"][0], user, "{by_path}");
    assert_eq!(user["names"][0], json!("discount"));
    assert!(!by_path["refers_to"].to_string().contains("\"discount\""), "it defines that itself: {by_path}");
    let with: Vec<&str> =
        by_path["changes_with"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert!(with.contains(&"src/checkout.rs"), "{with:?}");
    let tokens = &by_path["tokens"];
    let of = |depth: &str| tokens[depth].as_u64().unwrap();
    assert!(
        of("listing") > 0 && of("listing") <= of("outline") && of("outline") <= of("signatures"),
        "{tokens}"
    );
    assert!(of("signatures") < of("full"), "{tokens}");
    let said = person.agents(&["context", "inspect", "src/discount.rs"]);
    assert!(said.stdout.starts_with("src/discount.rs  (rust, 4 lines)\ntokens  listing "), "{said:?}");
}

#[test]
fn a_history_that_is_switched_off_or_gone_is_not_used() {
    let person = shop();
    let commits = || {
        let state = person.json(&["context", "index"]).data();
        assert_eq!(person.agents(&["context", "index", "--verify"]).exit, 0);
        state["commits"].clone()
    };
    assert_eq!(commits(), json!(2));
    person.write(".cleveragents/config.toml", "[context]\nhistory_commits = 0\n");
    assert_eq!(commits(), json!(0));
    fs::remove_dir_all(person.project().join(".cleveragents")).unwrap();
    assert_eq!(commits(), json!(2));
    fs::remove_dir_all(person.project().join(".git")).unwrap();
    assert_eq!(commits(), json!(0));
}

#[test]
fn of_files_that_are_not_to_be_seen_nothing_is_told() {
    let person = shop();
    person.write(".cleveragents/config.toml", "[context]\nexclude = [\"src/checkout.rs\"]\n");
    let told = person.json(&["context", "inspect", "src/discount.rs"]);
    assert_eq!(told.data()["definitions"][0]["name"], json!("discount"));
    let near = person.json(&["context", "inspect", "src/chekout.rs"]);
    assert_eq!(near.exit, 3, "{near:?}");
    let hidden = person.json(&["context", "inspect", "src/checkout.rs"]);
    assert_eq!((hidden.exit, &hidden.envelope()["messages"][0]["code"]), (4, &json!("FOCUS_EXCLUDED")));
    assert!(!format!("{}{}", told.stdout, near.stdout).contains("checkout.rs"), "{told:?} {near:?}");
}

#[test]
fn who_is_given_fewer_tokens_than_they_asked_for_is_told_why() {
    let person = shop();
    person.write(".cleveragents/config.toml", "[context]\nmax_tokens = 0\n");
    let said = person.agents(&["context", "assemble", QUERY, "--budget", "200"]);
    assert_eq!((said.exit, said.stdout.as_str()), (0, ""), "{said:?}");
    assert!(
        said.stderr.contains("200 tokens were requested, but `context.max_tokens` allows 0 here"),
        "{said:?}"
    );
    let said = person.agents(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, said.stdout.as_str(), said.stderr.as_str()), (0, "", ""), "nobody asked for more");
}

#[test]
fn a_secret_is_no_name_that_is_told() {
    let person = shop();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    person.write("docs/keys.md", &format!("# Keys\n\n## Token {key}\n\nThe checkout token.\n"));
    for args in [
        &["context", "inspect", "docs/keys.md"][..],
        &["context", "inspect", "Toke"],
        &["context", "assemble", "token", "--depth", "outline", "--focus", "docs/keys.md"],
        &["context", "assemble", "token", "--focus", "Toke"],
    ] {
        let said = person.json(args);
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains("oken") && !all.contains(&key), "{args:?}: {all}");
    }
}

#[test]
fn what_is_git_s_or_ours_cannot_be_asked_for_and_a_folder_is_called_one() {
    let person = shop();
    for (focus, said) in [
        (".git/config", "no file or definition"),
        ("deep/.env", "no file or definition"),
        ("src", "is a folder"),
        (".", "is a folder"),
    ] {
        let answer = person.json(&["context", "assemble", "x", "--focus", focus]);
        assert_eq!(answer.exit, 3, "{focus}: {answer:?}");
        let message = answer.envelope()["messages"][0].clone();
        assert_eq!(message["code"], "FOCUS_NOT_FOUND", "{message}");
        assert!(message["message"].as_str().unwrap().contains(said), "{message}");
    }
}

#[test]
fn a_server_of_embeddings_is_set_by_the_user_alone_who_is_told_that_none_is_asked() {
    let person = shop();
    person.write(".cleveragents/config.toml", "[context.embedding]\nurl = \"http://127.0.0.1:1\"\n");
    let refused = person.json(&["context", "assemble", QUERY]);
    assert_eq!(refused.envelope()["messages"][0]["code"], "CONFIG_NOT_ALLOWED_HERE", "{refused:?}");
    person.write(".cleveragents/config.toml", "");
    let set = person.agents(&["config", "set", "context.embedding.url=http://127.0.0.1:1"]);
    assert_eq!(set.exit, 0, "{set:?}");
    let said = person.json(&["context", "assemble", QUERY]);
    assert_eq!(said.exit, 0);
    assert!(notes(&said).contains("no embedder is built in yet"), "{}", notes(&said));
}

#[test]
fn the_index_is_private_and_only_what_changed_is_read_again() {
    let person = shop();
    let said = person.json(&["context", "index"]).data();
    assert_eq!(
        (&said["files"], &said["changed"], &said["commits"]),
        (&json!(4), &json!(4), &json!(2)),
        "{said}"
    );
    assert_eq!(said["languages"], json!({ "markdown": 1, "rust": 3 }));
    let root = person.project();
    let name = Hash::from_content(root.as_os_str().as_encoded_bytes()).to_string();
    let file = person.home().join("data/index").join(format!("{}.sqlite", &name[..16]));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    person.write("src/discount.rs", "pub fn discount() {}\n");
    assert_eq!(person.json(&["context", "index"]).data()["changed"], json!(1));
    assert_eq!(person.json(&["context", "index"]).data()["changed"], json!(0));
    assert_eq!(person.json(&["context", "index", "--clear"]).data(), json!({ "cleared": true }));
    assert!(!file.exists());
    assert_eq!(person.agents(&["context", "index", "--clear"]).exit, 0, "twice is fine");
}

#[test]
fn an_index_that_lies_is_found_out_and_can_be_thrown_away() {
    let person = shop();
    person.write("src/one.rs", "pub fn one() {}\n");
    person.write("src/two.rs", "pub fn two() {}\n");
    let said = person.json(&["context", "index", "--verify"]);
    assert_eq!((said.exit, &said.data()["verified"]), (0, &json!(true)), "{said:?}");
    let file = index_files(&person).pop().unwrap();
    let base = rusqlite::Connection::open(&file).unwrap();
    // One is taken for the other: what the row says of size and time is still right. And it was looked at later than it
    // was, since what was written in the seconds before a look is read again in any case.
    let changed = base.execute(
        "UPDATE file SET seen_ns = seen_ns + 5000000000, hash = (SELECT hash FROM file WHERE path = CAST('src/one.rs' AS BLOB)) \
         WHERE path = CAST('src/two.rs' AS BLOB)",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(base);
    let said = person.json(&["context", "index", "--verify"]);
    assert_eq!((said.exit, said.code().as_str()), (1, "INDEX_DIFFERS"), "{said:?}");
    assert!(said.envelope()["messages"].to_string().contains("src/two.rs"), "{said:?}");
    assert_eq!(person.agents(&["context", "index", "--clear"]).exit, 0);
    assert_eq!(person.agents(&["context", "index", "--verify"]).exit, 0);
}

#[test]
fn an_index_that_cannot_be_used_costs_a_note_and_nothing_else() {
    let person = shop();
    let whole = person.agents(&["context", "assemble", QUERY]).stdout;
    let file = index_files(&person).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    let damages: [(&str, Vec<u8>); 3] = [
        ("garbage", b"this is no database, and never was".repeat(200)),
        ("cut off", bytes[..bytes.len() / 2].to_vec()),
        ("empty", Vec::new()),
    ];
    for (damage, bytes) in damages {
        for ending in ["-wal", "-shm"] {
            let mut beside = file.clone().into_os_string();
            beside.push(ending);
            let _ = fs::remove_file(beside);
        }
        fs::write(&file, bytes).unwrap();
        let said = person.json(&["context", "assemble", QUERY]);
        assert_eq!((said.exit, &said.data()["text"]), (0, &json!(whole)), "{damage}: {said:?}");
        if damage == "garbage" {
            assert!(notes(&said).contains("index"), "{damage}: {said:?}");
        }
        assert_eq!(person.agents(&["context", "index", "--verify"]).exit, 0, "{damage}: mended");
    }
    fs::remove_dir_all(person.home().join("data/index")).unwrap();
    fs::write(person.home().join("data/index"), "in the way").unwrap();
    let said = person.json(&["context", "assemble", QUERY]);
    assert_eq!((said.exit, &said.data()["text"]), (0, &json!(whole)), "{said:?}");
    assert!(notes(&said).contains("the index is only in memory"), "{said:?}");
    // Nor where nothing at all can be kept.
    fs::write(person.home().join("no-folder"), "").unwrap();
    let said = person.json(&["context", "assemble", QUERY, "--data-dir", "../no-folder/data"]);
    assert_eq!((said.exit, &said.data()["text"]), (0, &json!(whole)), "{said:?}");
    assert!(notes(&said).contains("the index is only in memory"), "{said:?}");
}

#[test]
fn git_that_is_missing_costs_a_note_and_nothing_else() {
    let person = shop();
    let bin = person.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let env = Command::new("sh").args(["-c", "command -v env"]).output().unwrap();
    let env = String::from_utf8(env.stdout).unwrap();
    std::os::unix::fs::symlink(env.trim(), bin.join("env")).unwrap();
    let mut command = person.command(&person.project(), &["context", "assemble", QUERY]);
    let said = answer(command.env("PATH", &bin));
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("src/checkout.rs") && said.stderr.contains("history"), "{said:?}");
}

/// Many files, so that an update takes a while.
fn large() -> TestUser {
    let person = TestUser::new();
    let dir = person.project().join("src");
    fs::create_dir_all(&dir).unwrap();
    for no in 0..1_500 {
        let text: String = (0..40)
            .map(|line| format!("pub fn step_{no}_{line}(voucher: u32) -> u32 {{ voucher + {line} }}\n"))
            .collect();
        fs::write(dir.join(format!("m{no}.rs")), text).unwrap();
    }
    person
}

/// Starts the program with time for everything, however busy the machine is: what a deadline ends is left out.
fn start(person: &TestUser, args: &[&str]) -> Child {
    let mut command = person.command(&person.project(), args);
    command.env("CLEVERAGENTS_CONTEXT_INDEX_UPDATE_DEADLINE", "10m");
    command.env("CLEVERAGENTS_CONTEXT_DEADLINE", "60s").env("CLEVERAGENTS_CONTEXT_STRATEGY_DEADLINE", "60s");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn processes_that_index_at_once_agree() {
    let person = large();
    let ask = ["context", "assemble", "voucher step 7", "--budget", "2000"];
    let children: Vec<Child> = (0..8).map(|_| start(&person, &ask)).collect();
    let said: Vec<CommandOutput> =
        children.into_iter().map(|child| CommandOutput::of(&child.wait_with_output().unwrap())).collect();
    for one in &said {
        assert_eq!((one.exit, &one.stdout), (0, &said[0].stdout), "{one:?}");
        // A part of it may be, where the others are busy for long.
        assert!(!one.stderr.contains("note: the index is only in memory"), "all share the file: {one:?}");
    }
    assert!(said[0].stdout.contains("pub fn step_"), "{}", said[0].stdout);
    let verified = person.agents(&["context", "index", "--verify"]);
    assert_eq!(verified.exit, 0, "{verified:?}");
}

#[test]
fn an_update_that_is_killed_is_completed_by_the_next() {
    let person = large();
    let weight = |person: &TestUser| {
        let dir = fs::read_dir(person.home().join("data/index"));
        let sizes = dir.into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok());
        sizes.map(|found| found.len()).sum::<u64>()
    };
    // Killed at the first byte, and whenever so much more was written.
    let mut grown = 0;
    for _ in 0..6 {
        let mut child = start(&person, &["context", "index"]);
        while weight(&person) <= grown && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        // `env` became the program, so this is it.
        child.kill().unwrap();
        child.wait().unwrap();
        grown = weight(&person) + 200_000;
    }
    let said = person.json(&["context", "index", "--verify"]);
    assert_eq!((said.exit, &said.data()["verified"]), (0, &json!(true)), "{said:?}");
    assert_eq!((&said.data()["files"], &said.data()["partial"]), (&json!(1_500), &json!(false)));
}

#[test]
fn a_request_to_stop_ends_the_search_and_the_git_that_it_runs() {
    let person = shop();
    let bin = person.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    // It may neither write nor start anything, so its process alone shows that it has begun.
    fs::write(bin.join("git"), "#!/bin/sh\nwhile :; do :; done\n").unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = person.command(&person.project(), &["--format", "json", "context", "assemble", QUERY]);
    let child = command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let git = loop {
        match process_with_argument(&bin.join("git")) {
            Some(process) => break process,
            None => std::thread::yield_now(),
        }
    };
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said = CommandOutput::of(&child.wait_with_output().unwrap());
    assert_eq!((said.exit, said.code().as_str()), (5, "CANCELLED"), "{said:?}");
    assert!(!git.exists(), "its git is dead and reaped");
}

/// The directory in `/proc` of a process that was started with this path.
fn process_with_argument(path: &Path) -> Option<PathBuf> {
    let is_it = |process: &PathBuf| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == path.as_os_str().as_encoded_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).find(is_it)
}

#[test]
fn breakers_of_strategies_are_shown_and_reset() {
    let person = TestUser::new();
    let states = |answer: &Value| -> Vec<(String, String)> {
        let rows = answer["breakers"].as_array().unwrap().iter();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.map(|row| (word(row, "name"), word(row, "state"))).collect()
    };
    let shown = person.json(&["context", "breakers"]);
    assert_eq!(shown.exit, 0, "{shown:?}");
    let all = states(&shown.data());
    assert!(!all.is_empty() && all.iter().all(|(_, state)| state == "closed"), "{all:?}");
    assert!(!person.home().join("data").exists(), "a command that only reads makes nothing");

    // As a worker tells of a strategy that failed too often.
    let (name, _) = all[0].clone();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let file = person.home().join("data/breakers.jsonl");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let line = format!("{{\"at\":{now},\"provider\":\"context/{name}\",\"rest_ms\":3600000}}\n");
    fs::write(&file, line).unwrap();
    let open = person.agents(&["context", "breakers"]).stdout;
    assert!(open.contains(&format!("{name}  open: it failed too often and is skipped for")), "{open}");
    let refused = person.json(&["context", "breakers", "--reset", "nonsense"]);
    assert_eq!((refused.exit, refused.code()), (2, "USAGE".to_owned()), "{refused:?}");
    assert!(refused.stdout.contains(&name), "{refused:?}");
    let reset = person.json(&["context", "breakers", "--reset", &name]);
    assert_eq!((reset.exit, &reset.data()["reset"]), (0, &json!([name])), "{reset:?}");
    assert!(states(&reset.data()).iter().all(|(_, state)| state == "closed"), "{reset:?}");
    let again = person.agents(&["context", "breakers", "--reset", "all"]).stdout;
    assert_eq!(
        again.lines().filter(|line| line.ends_with("it was reset and is asked again")).count(),
        all.len()
    );

    assert_eq!(person.agents(&["config", "set", "breaker.threshold=7", "breaker.cool_down=5s"]).exit, 0);
    let set = person.json(&["context", "breakers"]).data();
    assert_eq!((&set["threshold"], &set["cool_down_s"]), (&json!(7), &json!(5)));
}
