//! The count of tokens without a vocabulary, held against real ones: over the text of this very workspace,
//! and over texts of every kind that are drawn.

use std::fs;
use std::path::{Path, PathBuf};

use context::{LexicalCounter, TokenCounter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The cost of one context, about.
const CONTEXT_TOKENS: u32 = 4000;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if entry.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                sources(&entry, found);
            }
        } else if [".rs", ".md", ".toml", ".feature", ".yaml", ".json", ".scm", ".sh", ".py"]
            .iter()
            .any(|ending| name.ends_with(ending))
        {
            found.push(entry);
        }
    }
}

/// Whole lines of the workspace in the order of its files, cut into contexts.
fn contexts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs", "features", "examples", "xtask"] {
        sources(&root.join(folder), &mut found);
    }
    let counter = LexicalCounter::default();
    let mut contexts = vec![String::new()];
    let mut spent = 0;
    for file in found {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for line in text.split_inclusive('\n') {
            spent += counter.hundredths(line);
            contexts.last_mut().expect("one at least").push_str(line);
            if spent >= u64::from(CONTEXT_TOKENS) * 100 {
                spent = 0;
                contexts.push(String::new());
            }
        }
    }
    contexts
}

#[test]
fn the_count_is_never_below_that_of_real_vocabularies() {
    let counter = LexicalCounter::default();
    let contexts = contexts();
    assert!(contexts.len() > 100, "{} contexts", contexts.len());
    for name in ["cl100k_base", "o200k_base"] {
        let vocabulary = tiktoken::get_encoding(name).expect("it is built in");
        let (mut most, mut counted, mut in_truth) = (0.0_f64, 0, 0);
        for text in &contexts {
            let (ours, true_count) = (counter.tokens(text), vocabulary.count(text) as u32);
            assert!(ours >= true_count, "{name}: {ours} for {true_count} tokens of:\n{text}");
            most = most.max(f64::from(ours) / f64::from(true_count.max(1)));
            (counted, in_truth) = (counted + u64::from(ours), in_truth + u64::from(true_count));
        }
        // One context may be of a table that repeats its names; all of them together must be counted closely.
        assert!(most < 1.3, "{name}: {most} times the truth wastes the budget");
        assert!(counted * 100 < in_truth * 112, "{name}: {counted} for {in_truth} tokens in all");
    }
}

const VOCABULARIES: [&str; 2] = ["cl100k_base", "o200k_base"];
const TEXTS_PER_KIND: u32 = 500;
const MIXED_TEXTS: u32 = 4000;

/// Words that no vocabulary knows, of syllables of the languages whose words are put together.
const SYLLABLES: &str = "ka ta lo in en sa ssa lla kin mat pää yö hy vä schaft ung keit ge ver be wie krz szcz nie prz owa mem per \
    kan nya ber lah ler lar mış ğı kép ség nek szer ở việt nam người đ ươ ình";
const NAMES: &str = "get set name id http Server Client to from is has tmp ctx buf idx ptr str cfg impl async Http URL ID JSON parse \
    Render Node tree XML rs io vec Kbd xyz Qt mk sz utf Fn Arc Mutex _ _ . :: ( -> 2 64";
const PROSE: [&str; 9] = [
    "Järjestelmänvalvoja käynnistää palvelimen uudelleen, jos yhteyttä tietokantaan ei pystytä muodostamaan. ",
    "Die Donaudampfschifffahrtsgesellschaft prüft die Geschwindigkeitsüberschreitung und Rückwärtskompatibilität. ",
    "Przeprowadziliśmy szczegółową analizę nieprawidłowości w zarządzaniu współdzielonymi zasobami. ",
    "Pengembangan perangkat lunak memerlukan keterampilan pemecahan masalah dan pengelolaan sumber daya. ",
    "Geliştiricilerin çoğu, bağımlılıkların güncellenmesinden kaynaklanan uyumsuzlukları gözden kaçırıyor. ",
    "A megszentségteleníthetetlenségeskedéseitekért felelős fejlesztők újraindították a kiszolgálót. ",
    "Người quản trị khởi động lại máy chủ nếu không thể thiết lập kết nối với cơ sở dữ liệu. ",
    "Администратор перезапускает сервер, если соединение с базой данных не установлено. ",
    "サーバーを再起動してください。数据库连接失败。서버를 다시 시작합니다. यदि सर्वर बंद है। ถ้าเซิร์ฟเวอร์หยุด ",
];
/// Characters at the ends of lines, and at their beginnings.
const EDGES: &str = "; , . { } ( ) // / /// //! /** */ * = => -> :: ! ' \" # - -- _ a foo 's 'll don 12 \
    --}} |` //= } )); > //} */ //! ////";
const BLANKS: [&str; 10] =
    [" ", "  ", "    ", "                    ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r"];

fn words(text: &'static str) -> BoxedStrategy<String> {
    select(text.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned).boxed()
}

fn characters(text: &'static str) -> BoxedStrategy<String> {
    select(text.chars().collect::<Vec<_>>()).prop_map(String::from).boxed()
}

fn between(first: char, last: char) -> BoxedStrategy<String> {
    proptest::char::range(first, last).prop_map(String::from).boxed()
}

fn blank() -> BoxedStrategy<String> {
    select(&BLANKS[..]).prop_map(str::to_owned).boxed()
}

/// Three of the first for one of the second.
fn mostly(first: BoxedStrategy<String>, second: BoxedStrategy<String>) -> BoxedStrategy<String> {
    prop_oneof![3 => first, 1 => second].boxed()
}

/// The pieces of which a text of each kind is made.
fn kinds() -> Vec<(&'static str, BoxedStrategy<String>)> {
    let ascii = "abcdefghijklmnopqrstuvwxyz";
    vec![
        ("letters without sense", between('a', 'z')),
        ("words without sense", "[a-z]{1,9} ".boxed()),
        ("names without sense", "[A-Z]{0,3}[a-z]{1,5}_?".boxed()),
        ("capitals", "[A-Z]{1,8}[ _]".boxed()),
        ("syllables", mostly(words(SYLLABLES), blank())),
        ("prose", select(&PROSE[..]).prop_map(str::to_owned).boxed()),
        ("names", mostly(words(NAMES), blank())),
        ("digests", characters("0123456789abcdef")),
        ("base64", "[A-Za-z0-9+/]{1,30}=?\n?".boxed()),
        ("marks", mostly("[!-/:-@\\[-`{-~]".boxed(), blank())),
        ("edges of lines", mostly(words(EDGES), blank())),
        ("runs of one mark", ("[ -~]", 1_usize..40).prop_map(|(mark, times)| mark.repeat(times)).boxed()),
        ("blanks", mostly(blank(), characters("a1(\u{b}\u{c}"))),
        ("numbers", characters("0123456789 .,²½٣")),
        (
            "short forms",
            words(
                "' 's 't 're 'll 've 'd 'm 'S 'LL 'VE 'RE 'Ll 'vE 'Re 'T 'ſ foo Foo WE THEY don can \" = (",
            )
            .boxed(),
        ),
        ("control", prop_oneof![between('\0', '\u{1f}'), between('\u{7f}', '\u{a0}')].boxed()),
        ("ASCII", between('\0', '\u{7f}')),
        ("Latin", mostly(between('\u{a0}', '\u{24f}'), characters(ascii))),
        ("Greek and Cyrillic", mostly(between('\u{370}', '\u{52f}'), blank())),
        ("Han", between('\u{4e00}', '\u{9fff}')),
        ("Hangul", mostly(between('\u{ac00}', '\u{d7a3}'), blank())),
        ("kana", between('\u{3040}', '\u{30ff}')),
        ("Devanagari", mostly(between('\u{900}', '\u{97f}'), blank())),
        ("Tamil", mostly(between('\u{b80}', '\u{bff}'), blank())),
        (
            "scripts in turn",
            prop_oneof![
                between('\u{e01}', '\u{e5b}'),
                between('\u{5d0}', '\u{5ea}'),
                between('\u{300}', '\u{310}'),
                between('\u{ac00}', '\u{d7a3}'),
                characters("äänaAB 'll\n"),
            ]
            .boxed(),
        ),
        ("Thai", between('\u{e01}', '\u{e5b}')),
        ("Hebrew and Arabic", mostly(between('\u{591}', '\u{6ff}'), blank())),
        ("combining", mostly(between('\u{300}', '\u{36f}'), characters(ascii))),
        ("signs", mostly(between('\u{2000}', '\u{2bff}'), characters("ab .\n"))),
        ("emoji", mostly(between('\u{1f300}', '\u{1faff}'), characters("\u{200d}\u{fe0f}\u{20e3}#1a "))),
        ("without width", characters("\u{200b}\u{200c}\u{200d}\u{feff}\u{2060}\u{ad}\u{a0}ab .\n")),
        ("any", any::<char>().prop_map(String::from).boxed()),
    ]
}

/// Draws texts and holds the count against both vocabularies, and lines one by one against all together.
fn hold(kind: &str, texts: u32, parts: impl Strategy<Value = Vec<String>>) {
    let counter = LexicalCounter::default();
    let vocabularies = VOCABULARIES.map(|name| tiktoken::get_encoding(name).expect("it is built in"));
    let config = Config { cases: texts, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let held = runner.run(&parts, |parts| {
        let text = parts.concat();
        let ours = counter.tokens(&text);
        for (name, vocabulary) in VOCABULARIES.iter().zip(vocabularies) {
            let true_count = vocabulary.count(&text) as u32;
            prop_assert!(ours >= true_count, "{name}: {ours} for {true_count} tokens");
        }
        let lines: u64 = text.split_inclusive('\n').map(|line| counter.hundredths(line)).sum();
        prop_assert!(lines >= counter.hundredths(&text), "{lines} hundredths line by line, together more");
        Ok(())
    });
    if let Err(broken) = held {
        panic!("{kind}: {broken}");
    }
}

/// Texts that were once counted below the truth, again and again.
#[test]
fn short_forms_marks_and_odd_characters_are_not_counted_below_real_vocabularies() {
    let texts = [
        "WE'LL ",
        "I'VE ",
        "YOU'RE ",
        "--}}\n//}\n\n",
        "foo()\n|`\n//=\n",
        "a;\n>--}}\n//\n",
        "]))\n\n/>.\n/.\n\n }\n\n\n",
        " \u{bc1}",
        " \u{bcd}",
        "\näänפשנ탅",
        " 최พ่",
        "\u{300}ล",
        "\u{11de0}.Linq",
    ];
    let counter = LexicalCounter::default();
    for text in texts.map(|text| text.repeat(100)) {
        let ours = counter.tokens(&text);
        for name in VOCABULARIES {
            let true_count = tiktoken::get_encoding(name).expect("it is built in").count(&text) as u32;
            assert!(ours >= true_count, "{name}: {ours} for {true_count} tokens of {text:?}");
        }
    }
}

#[test]
fn no_kind_of_text_is_counted_below_real_vocabularies() {
    for (kind, parts) in kinds() {
        hold(kind, TEXTS_PER_KIND, vec(parts.clone(), 1..5));
        hold(kind, TEXTS_PER_KIND, vec(parts, 5..60));
    }
}

#[test]
fn no_mixture_of_texts_is_counted_below_real_vocabularies() {
    let parts = proptest::strategy::Union::new(kinds().into_iter().map(|(_, parts)| parts));
    hold("a mixture", MIXED_TEXTS, vec(parts, 1..40));
}
