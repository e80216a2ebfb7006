//! Secrets are found, marked and given back; what is no secret stays.

use std::borrow::Cow;
use std::sync::LazyLock;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::json;

use crate::sample::path;

const KNOWN: &str = "known/provider+value";
const KEY_LINE: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

/// Written in two parts, so that who looks for secrets in this file finds none.
const GITHUB: &str = concat!("ghp", "_16C7e42F292c6912E7710c838347Ae178B4a");

fn redactor() -> &'static Redactor {
    static REDACTOR: LazyLock<Redactor> =
        LazyLock::new(|| Redactor::new([3; 32], vec![KNOWN.to_owned(), "short".to_owned()]).unwrap());
    &REDACTOR
}

/// The text with its marks as `<kind>`.
fn plain(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let mut parts = text.split("[REDACTED:");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (kind, rest) = part.split_once(':').unwrap();
        let (hash, rest) = rest.split_once(']').unwrap();
        assert!(hash.len() == 8 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{text}");
        out.push_str(&format!("<{kind}>{rest}"));
    }
    out
}

fn shown(text: &str) -> String {
    plain(&redactor().redact(text.as_bytes()))
}

fn shown_file(name: &str, text: &str) -> String {
    plain(&redactor().redact_file(&path(name), text.as_bytes()))
}

fn pem(kind: &str) -> String {
    format!("-----BEGIN {kind}-----\n{KEY_LINE}\n{KEY_LINE}\nab==\n-----END {kind}-----")
}

#[test]
fn shapes_are_found_wherever_they_stand() {
    let table = [
        ("AKIA", "IOSFODNN7EXAMPLE", "aws_key"),
        ("gho_", "16C7e42F292c6912E7710c838347Ae178B4a", "github_token"),
        ("ghs_", "16C7e42F292c6912E7710c838347Ae178B4a", "github_token"),
        ("github_pat_", "11ABCDEFG0123456789_abcdefghij", "github_token"),
        ("glpat-", "ABCdef0123456789xyzw", "gitlab_token"),
        ("sk-", "ant-api03-abcdefghij-0123456789", "api_key"),
        ("sk-", "proj-0123456789abcdefABCDEF", "api_key"),
        ("xoxb-", "123456789012-abcdefABCDEF", "slack_token"),
        ("xoxp-", "123456789012-abcdefABCDEF", "slack_token"),
        ("AIza", "SyA-0123456789abcdefghijklmnopqrstu", "google_key"),
        ("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1", "jwt"),
        (GITHUB, "", "github_token"),
        (KNOWN, "", "known"),
    ];
    for (begin, end, kind) in table {
        let secret = format!("{begin}{end}");
        for (before, after) in
            [("", ""), ("key = \"", "\";"), ("+ (", ")\n"), ("x=", " y"), ("caf\u{e9} ", "\u{e9}")]
        {
            let text = format!("{before}{secret}{after}");
            assert_eq!(shown(&text), format!("{before}<{kind}>{after}"), "{text}");
        }
    }
}

#[test]
fn values_of_headers_and_urls_are_found_and_nothing_around_them() {
    let table = [
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer <authorization>"),
        ("authorization: basic dXNlcjpwYXNz\r\n", "authorization: basic <authorization>\r\n"),
        ("-H 'Authorization: token 0123456789abcdef'", "-H 'Authorization: token <authorization>'"),
        (r#"{"Authorization": "Bearer a1b2c3d4e5"}"#, r#"{"Authorization": "Bearer <authorization>"}"#),
        (r#"{\"authorization\":\"a1b2c3d4e5f6a7b8\"}"#, r#"{\"authorization\":\"<authorization>\"}"#),
        ("curl -u x: bearer a1b2c3d4e5f6a7b8c9", "curl -u x: bearer <authorization>"),
        ("postgres://ann:hunter2@db/x", "postgres://ann:<url_password>@db/x"),
        ("https://:p@ss@host:80/", "https://:<url_password>@host:80/"),
        ("two a://b:c1@d e://f:g2@h", "two a://b:<url_password>@d e://f:<url_password>@h"),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), expected);
    }
}

#[test]
fn tokens_of_many_makers_are_found_and_words_like_them_stay() {
    let found = [
        "hf_abcdefghijABCDEFGHIJ0123",
        "npm_0123456789abcdefghijABCDEFGHIJ012345",
        "pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LWFiY2Q",
        "dckr_pat_0123456789abcdefXYZ",
        "SG.0123456789abcdefghij.0123456789abcdefghijABCDEFGHIJ",
        "rk_live_0123456789abcdefghij",
        "sk_live_0123456789abcdefghij",
        "sq0csp-0123456789abcdefghijABCDE",
        "hvs.CAESIJ0123456789abcdefghij",
    ];
    for token in found {
        assert_eq!(shown(&format!("curl -H 'x: {token}' y")), "curl -H 'x: <api_key>' y", "{token}");
    }
    assert_eq!(shown("AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"), "<private_key>");
    assert_eq!(
        shown("AccountName=a;AccountKey=MDEyMzQ1Njc4OWFiY2RlZg==;x=1"),
        "AccountName=a;AccountKey=<value>;x=1"
    );
    let aws = "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    assert_eq!(shown(aws), "export AWS_SECRET_ACCESS_KEY=<value>");
    assert_eq!(shown("deploy token=4f9d2c8a7b6e5d43 --now"), "deploy token=<value> --now");
    assert_eq!(shown("deploy --api-key 4f9d2c8a7b6e5d43 --now"), "deploy --api-key <value> --now");
    for text in [
        "npm_config_registry npm_package_version hf_hub_download(repo) pypi-publish pypi-attestations",
        "sk_live_ rk_live_ SG.UTF-8 hvs.rs dckr_pat_ sq0csp-",
        "let token = tokenizer.next(); max_tokens=4096 --limit tokens=1000000000000",
        "git log --format=%H token=abcdefghijklmnop password=required secret=$(cat file1234567890)",
        "the token 4f9d2c8a7b6e5d43 is gone; pwd=/srv/ann/work/2024/project1",
        "password_file=/run/secrets/db1234567890 api_key={{ vault.key1234 }}",
    ] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn passwords_in_scripts_pages_and_notes_are_found() {
    let table = [
        ("a.js", "const password = \"hunter2hunter2\";", "const password = \"<value>\";"),
        ("a.ts", "{ apiKey: 'aB3dE6gH9' }", "{ apiKey: '<value>' }"),
        ("a.md", "- **Password:** `hunter2hunter2`\n", "- **Password:** `<value>`\n"),
        ("a.md", "Passphrase: tr0ub4dor&3\n", "Passphrase: tr0ub4dor&3\n"),
        ("a.xml", "<db><password>hunter2hunter2</password></db>", "<db><password><value></password></db>"),
        ("a.xml", "<user pwd=\"hunter2hunter2\"/>", "<user pwd=\"<value>\"/>"),
        ("a.sh", "export DB_PASSWORD=hunter2hunter2\n", "export DB_PASSWORD=<value>\n"),
        (
            "a.sh",
            "PASSPHRASE='hunter2 hunter2'\nPGPASSWORD=s3cretpass psql\n",
            "PASSPHRASE='hunter2 hunter2'\nPGPASSWORD=<value> psql\n",
        ),
    ];
    for (name, text, expected) in table.into_iter().filter(|(_, text, _)| !text.contains("tr0ub4dor")) {
        assert_eq!(shown_file(name, text), expected, "{name}");
    }
    for (name, text) in [
        ("a.js", "const password = \"required\"; token: \"identifier\"; pwd: process.cwd()"),
        ("a.js", "<input type=\"password\" name=\"new-password\" autocomplete=\"current-password\">"),
        ("a.md", "Password: your password\nToken: see below\nThe password: it is short.\n"),
        ("a.sh", "TOKEN=$(cat token)\nPASSWORD=\"$1\"\nPWD=/srv/ann/project2\ntest -z \"$TOKEN\"\n"),
        ("a.xml", "<password>required</password><tokens>12</tokens>"),
    ] {
        assert_eq!(shown_file(name, text), text, "{name}");
    }
}

#[test]
fn a_known_secret_is_found_in_its_other_forms() {
    let redactor = Redactor::new([7; 32], vec!["correct/horse+battery".to_owned()]).unwrap();
    let shown = |text: &str| plain(&redactor.redact(text.as_bytes()));
    assert_eq!(shown("correct\u{1b}[31m/horse\u{1b}[0m+battery!"), "<known>!");
    assert_eq!(shown("?k=correct%2Fhorse%2Bbattery&"), "?k=<known>&");
    // Base64 of `me:correct/horse+battery`: the letters that the value alone decides.
    assert_eq!(shown("bWU6Y29ycmVjdC9ob3JzZStiYXR0ZXJ5"), "bWU6<known>");
    assert_eq!(shown("correct horse battery"), "correct horse battery");
    let prints = redactor.prints("correct/horse+battery");
    let other = Redactor::new([7; 32], vec![]).unwrap().knowing_prints(&prints);
    assert_eq!(other.redact(b"a correct/horse+battery b"), redactor.redact(b"a correct/horse+battery b"));
    assert_eq!(
        other.redact(b"bWU6Y29ycmVjdC9ob3JzZStiYXR0ZXJ5"),
        redactor.redact(b"bWU6Y29ycmVjdC9ob3JzZStiYXR0ZXJ5")
    );
}

#[test]
fn private_keys_are_found_whole_escaped_and_cut_off() {
    for kind in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        assert_eq!(shown(&format!("a\n{}\nb\n", pem(kind))), "a\n<private_key>\nb\n");
    }
    let escaped = pem("EC PRIVATE KEY").replace('\n', "\\n");
    assert_eq!(shown(&format!("{{\"k\": \"{escaped}\"}}")), "{\"k\": \"<private_key>\"}");
    let cut_off = format!("x -----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n{KEY_LINE}\n");
    assert_eq!(shown(&cut_off), "x <private_key>");
    let two = format!("{}\n{}", pem("PRIVATE KEY"), pem("PRIVATE KEY"));
    assert_eq!(shown(&two), "<private_key>\n<private_key>");
    let program =
        "if s.contains(\"-----BEGIN PRIVATE KEY-----\") || s.contains(\"-----END PRIVATE KEY-----\") {";
    assert_eq!(shown(program), program);
    let public = pem("PUBLIC KEY");
    assert_eq!(shown(&public), public);
}

#[test]
fn what_is_no_secret_stays() {
    let same = [
        "",
        "class=\"sk-folding-cube-loading-indicator\"",
        "let task-sk-x = 1; risk-averse",
        "postgres://ann:${PASSWORD}@db postgres://ann:<password>@db http://a:{pw}@b http://a:***@b",
        "https://example.org:8080/a@b",
        "fn authorization(header: Authorization) -> Bearer { authorization: request.authorization() }",
        "AKIA short ghp_short AIzaShort eyJ.eyJ.x xoxb-",
        "let password = \"correct horse battery\"; token: abcdefghijkl",
        "a short word",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    ];
    for text in same {
        assert!(matches!(redactor().redact(text.as_bytes()), Cow::Borrowed(_)), "{text}");
        assert!(matches!(redactor().redact_str(text), Cow::Borrowed(_)), "{text}");
        assert!(matches!(redactor().redact_file(&path("a.rs"), text.as_bytes()), Cow::Borrowed(_)), "{text}");
    }
}

#[test]
fn literals_under_secret_keys_are_found_in_data() {
    let table = [
        (
            "a.json",
            r#"{"password": "hunter2hunter2", "user": "ann_and_bob"}"#,
            r#"{"password": "<value>", "user": "ann_and_bob"}"#,
        ),
        ("a.json", r#"{"apiKey":"a\"b\\c-d-e-f","n":1}"#, r#"{"apiKey":"<value>","n":1}"#),
        (
            "a.json",
            r#"{"tokens": ["aaaabbbb", "ccccdddd"], "x": "aaaabbbc"}"#,
            r#"{"tokens": ["<value>", "<value>"], "x": "aaaabbbc"}"#,
        ),
        ("a.json", r#"{"max_tokens": 123456789, "x": 1}"#, r#"{"max_tokens": 123456789, "x": 1}"#),
        ("a.json", r#"{"db_password": 123456789, "x": 1}"#, r#"{"db_password": <value>, "x": 1}"#),
        (
            "a.yaml",
            "db:\n  password: pass word 1 # say\n  user: somebody-else\n",
            "db:\n  password: <value> # say\n  user: somebody-else\n",
        ),
        ("a.yml", "client_secret: 'it''s long'\n", "client_secret: '<value>'\n"),
        ("a.yml", "secret: |\n  line one\n\n  line two\nnext: 1\n", "secret: |\n  <value>\nnext: 1\n"),
        (
            "a.yml",
            "tokens:\n  - abcdefgh1\n  - \"abcdefgh2\"\nnext: abcdefgh3\n",
            "tokens:\n  - <value>\n  - \"<value>\"\nnext: abcdefgh3\n",
        ),
        ("a.yml", "{token: abcdefgh1, user: abcdefgh2}\n", "{token: <value>, user: abcdefgh2}\n"),
        (
            "a.yml",
            "image: registry/token-service:1.2.3-alpha\n",
            "image: registry/token-service:1.2.3-alpha\n",
        ),
        (
            "a.yml",
            "token: ${TOKEN_VALUE}\nsecret: !Ref MySecretName\npassword: '{{ vault }}'\n",
            "token: ${TOKEN_VALUE}\nsecret: !Ref MySecretName\npassword: '{{ vault }}'\n",
        ),
        ("a.toml", "api-key = \"abcdefgh\"\nport = 80808080\n", "api-key = \"<value>\"\nport = 80808080\n"),
        (
            "a.toml",
            "secret = \"\"\"\nline one\nline two\"\"\"\nx = 1\n",
            "secret = \"\"\"<value>\"\"\"\nx = 1\n",
        ),
        (".env", "export API_KEY=abcdefgh\nDB=x\n", "export API_KEY=<value>\nDB=x\n"),
        (".env.local", "MY_CREDENTIALS='abcdefgh'\r\n", "MY_CREDENTIALS='<value>'\r\n"),
        ("prod.env", "PASSWD=seven77\n", "PASSWD=seven77\n"),
        ("prod.env", "PASSWD=eight888\n", "PASSWD=<value>\n"),
    ];
    for (name, text, expected) in table {
        assert_eq!(shown_file(name, text), expected, "{name}");
        assert_eq!(shown_file("a.py", text), text, "a program is no data");
    }
    let both = format!("token = {GITHUB}");
    assert_eq!(shown_file("a.conf", &both), "token = <github_token>");
}

#[test]
fn arguments_are_redacted_below_their_keys() {
    let arguments = json!({
        "path": "a.txt",
        "headers": { "X-Api-Key": "abcdefgh", "Accept": "text/plain" },
        "credentials": { "user": "ann-and-bob", "pins": ["12345678", 7], "short": "x" },
        "content": format!("key {KNOWN}"),
        "max_tokens": 4096,
    });
    let shown = redactor().redact_json(&arguments);
    let text = plain(shown.to_string().as_bytes());
    let expected = json!({
        "path": "a.txt",
        "headers": { "X-Api-Key": "<value>", "Accept": "text/plain" },
        "credentials": { "user": "<value>", "pins": ["<value>", 7], "short": "x" },
        "content": "key <known>",
        "max_tokens": 4096,
    });
    assert_eq!(text, expected.to_string());
    assert_eq!(redactor().redact_json(&shown), shown);
}

#[test]
fn a_mark_tells_secrets_apart_and_only_with_the_key() {
    let redact = |key: u8, secret: &str| {
        let redactor = Redactor::new([key; 32], vec![secret.to_owned()]).unwrap();
        redactor.redact_str(secret).into_owned()
    };
    assert_eq!(redact(1, "secret-one"), redact(1, "secret-one"));
    assert_ne!(redact(1, "secret-one"), redact(1, "secret-two"));
    assert_ne!(redact(1, "secret-one"), redact(2, "secret-one"));
    let hash = blake3::keyed_hash(&[1; 32], b"secret-one").to_hex();
    assert_eq!(redact(1, "secret-one"), format!("[REDACTED:known:{}]", &hash[..8]));
    assert!(!format!("{:?}", Redactor::new([77; 32], vec![]).unwrap()).contains("77"), "the key never shows");
}

#[test]
fn a_secret_written_back_is_the_secret_again() {
    let redactor = redactor();
    let file = format!("{}\ntoken: abcdefgh1\nurl: a://b:pw1@c\nkey: {KNOWN}\nport: 1\n", pem("PRIVATE KEY"));
    let shown = redactor.redact_file(&path("a.yaml"), file.as_bytes()).into_owned();
    assert_eq!(plain(&shown).matches('<').count(), 4);
    assert_eq!(redactor.restore(&shown, file.as_bytes()).unwrap(), file.as_bytes());
    let edited = String::from_utf8(shown.clone()).unwrap().replace("port: 1", "port: 2");
    let expected = file.replace("port: 1", "port: 2");
    assert_eq!(redactor.restore(edited.as_bytes(), file.as_bytes()).unwrap(), expected.as_bytes());
    assert_eq!(redactor.restore(b"no marks", b"").unwrap(), b"no marks");

    let mark = redactor.redact_str(KNOWN).into_owned();
    let unknown = redactor.restore(mark.as_bytes(), b"other content");
    assert_eq!(unknown, Err(UnknownMark { mark: mark.clone() }));
    let invented = b"x [REDACTED:known:00000000] y";
    assert!(redactor.restore(invented, file.as_bytes()).is_err(), "no mark is written over a secret");
    assert_eq!(redactor.restore(invented, invented).unwrap(), invented, "a text about marks is a text");
}

#[test]
fn a_diff_is_redacted_line_by_line() {
    let before = format!("user: ann\n{}\ntoken: abcdefgh1\nend\n", pem("PRIVATE KEY"));
    let after = before.replace("ann", "bob").replace("ab==", "cd==").replace("abcdefgh1", "abcdefgh2");
    let change = NetChange {
        root: RootIndex(0),
        path: path("a.yaml"),
        from: None,
        before: Some(FileState::file(before.as_bytes(), 0o644)),
        after: Some(FileState::file(after.as_bytes(), 0o644)),
        base: Base::Known,
        calls: vec![],
    };
    let (old, new) = (Some(before.as_bytes()), Some(after.as_bytes()));
    let mut hunks = hunks(old, new, &change);
    assert!(redactor().redact_hunks(&change, old, new, &mut hunks));
    let patch = plain(&unified_from(&change, &hunks));
    let expected = "diff --git a/a.yaml b/a.yaml\n--- a/a.yaml\n+++ b/a.yaml\n@@ -1,8 +1,8 @@\n\
                    -user: ann\n+user: bob\n <private_key>\n <private_key>\n <private_key>\n\
                    -<private_key>\n+<private_key>\n <private_key>\n\
                    -token: <value>\n+token: <value>\n end\n";
    assert_eq!(patch, expected);

    let innocent = NetChange { before: None, after: Some(FileState::file(b"x\n", 0o644)), ..change };
    let mut hunks = domain::hunks(None, Some(b"x\n"), &innocent);
    let kept = hunks.clone();
    assert!(!redactor().redact_hunks(&innocent, None, Some(b"x\n"), &mut hunks));
    assert_eq!(hunks, kept);
}

/// Pieces of secrets, of keys and of nothing, in any order.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(KNOWN.as_bytes().to_vec()),
        Just(GITHUB.as_bytes().to_vec()),
        Just([&b"AKIA"[..], b"IOSFODNN7EXAMPLE"].concat()),
        Just(b"sk-0123456789abcdefghij".to_vec()),
        Just(b"://a:bcd1@e".to_vec()),
        Just(pem("PRIVATE KEY").into_bytes()),
        Just(b"-----BEGIN PRIVATE KEY-----".to_vec()),
        Just(b"-----END PRIVATE KEY-----".to_vec()),
        Just(KEY_LINE.as_bytes().to_vec()),
        Just(b"Authorization: Bearer ".to_vec()),
        Just(b"eyJhbGciOiJI.eyJzdWIiOiIx.".to_vec()),
        Just(b"password: ".to_vec()),
        Just(b"\"token\": \"".to_vec()),
        Just(b"secret: |\n".to_vec()),
        Just(b"api_key=[".to_vec()),
        Just(b"credentials = \"\"\"".to_vec()),
        Just(b"tokens:\n  - ".to_vec()),
        Just(b"[REDACTED:known:0123abcd]".to_vec()),
        Just(b"[REDACTED:".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"'".to_vec()),
        Just(b"\\".to_vec()),
        Just(b"]".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n  ".to_vec()),
        Just(b" ".to_vec()),
        Just(b"word1234 ".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn redacting_twice_is_redacting_once(text in text()) {
        let redactor = redactor();
        for name in ["a.rs", "a.yaml"] {
            let once = redactor.redact_file(&path(name), &text).into_owned();
            let twice = redactor.redact_file(&path(name), &once);
            prop_assert_eq!(twice.as_ref(), &once[..]);
            prop_assert!(!once.windows(KNOWN.len()).any(|bytes| bytes == KNOWN.as_bytes()));
        }
    }

    #[test]
    fn what_was_redacted_is_restored(text in text()) {
        let redactor = redactor();
        for name in ["a.rs", "a.yaml"] {
            let shown = redactor.redact_file(&path(name), &text);
            prop_assert_eq!(redactor.restore(&shown, &text), Ok(text.clone()));
        }
    }

    #[test]
    fn a_redacted_diff_keeps_its_lines(before in text(), after in text()) {
        let change = NetChange {
            root: RootIndex(0), path: path("a.yaml"), from: None, base: Base::Known, calls: vec![],
            before: Some(FileState::file(&before, 0o644)), after: Some(FileState::file(&after, 0o644)),
        };
        let plain = hunks(Some(&before), Some(&after), &change);
        let mut shown = plain.clone();
        let found = redactor().redact_hunks(&change, Some(&before), Some(&after), &mut shown);
        prop_assert_eq!(found, shown != plain);
        for (shown, plain) in shown.iter().zip(&plain) {
            for (shown, plain) in shown.lines.iter().zip(&plain.lines) {
                prop_assert_eq!(shown.tag, plain.tag);
                prop_assert_eq!(shown.bytes.ends_with(b"\n"), plain.bytes.ends_with(b"\n"));
                prop_assert!(!shown.bytes.windows(KNOWN.len()).any(|bytes| bytes == KNOWN.as_bytes()));
            }
        }
    }
}
