//! File names in patches, as git writes and reads them.

/// `prefix` and `name`, in quotes with escapes if a byte is a control character, a quote, a backslash or not
/// ASCII.
pub(crate) fn quote(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if name.iter().all(plain) {
        return [prefix, name].concat();
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix);
    for byte in name {
        match letter_of(*byte) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None if plain(byte) => out.push(*byte),
            None => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// The letter that represents a byte after a backslash.
fn letter_of(byte: u8) -> Option<u8> {
    match byte {
        0x07 => Some(b'a'),
        0x08 => Some(b'b'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        0x0b => Some(b'v'),
        0x0c => Some(b'f'),
        b'\r' => Some(b'r'),
        b'"' | b'\\' => Some(byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"src/a b.rs", b"a/src/a b.rs"),
            (b"caf\xc3\xa9", br#""a/caf\303\251""#),
            (b"a\"b\\c", br#""a/a\"b\\c""#),
            (b"\x07\x08\t\n\x0b\x0c\r", br#""a/\a\b\t\n\v\f\r""#),
            (b"\x01\x1f\x7f\xff", br#""a/\001\037\177\377""#),
            (b"~!#'$", b"a/~!#'$"),
        ];
        for (name, expected) in cases {
            assert_eq!(quote(b"a/", name).escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }
}
