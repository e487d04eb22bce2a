//! Text that came over the network, before a terminal sees it: escape sequences, line breaks and letters that turn the
//! direction of writing must not come from whatever answered at an address.
//!
//! Not here: what the text says. Files and JSON keep everything (JSON escaped).

/// Characters of such a text shown at most.
pub(super) const SHOWN_MAX: usize = 200;
/// Stands for what was cut off.
const MORE: &str = "...";

/// Whether a terminal shows this character and does nothing else.
fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    !(c.is_control() || is_invisible)
}

/// The text in one line without what is not printable, [`SHOWN_MAX`] characters at most.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::new();
    let shown = text.trim().chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c });
    for (nth, c) in shown.filter(|c| is_printable(*c)).enumerate() {
        if nth == SHOWN_MAX {
            let kept = out.char_indices().nth(SHOWN_MAX - MORE.len()).map_or(out.len(), |(at, _)| at);
            out.truncate(kept);
            out.push_str(MORE);
            break;
        }
        out.push(c);
    }
    out
}

/// Makes a text printable where it stands.
pub(super) fn print_soundly(text: &mut String) {
    let is_sound = text.len() <= SHOWN_MAX && text.chars().all(is_printable);
    if !is_sound {
        *text = printable(text);
    }
}

/// JSON that means the same and is printable. Outside of strings it has no such character.
pub(super) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_printable(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_is_left() {
        let evil = "\u{1b}]0;title\u{7}\u{1b}[2Jok\r\nverdict:\tfine\u{9b}31m\u{202e}gnp\u{7f}\n";
        assert_eq!(printable(evil), "]0;title[2Jok  verdict: fine31mgnp");
        assert_eq!(printable(" Größe 42 µs "), "Größe 42 µs");
        let mut text = evil.to_owned();
        print_soundly(&mut text);
        assert_eq!(text, printable(evil));
    }

    #[test]
    fn it_is_cut_to_its_bound_and_says_so() {
        assert_eq!(printable(&"ä".repeat(SHOWN_MAX)), "ä".repeat(SHOWN_MAX));
        let cut = printable(&"ä".repeat(SHOWN_MAX + 1));
        assert!(cut.chars().count() == SHOWN_MAX && cut.ends_with("ä..."), "{cut}");
    }

    #[test]
    fn escaped_json_is_read_back_as_it_was() {
        let text = "a\u{9b}31m\u{1b}[0m\u{e0041}\u{202e}\n";
        let json = escaped(&serde_json::to_string(text).expect("JSON"));
        assert!(json.chars().all(is_printable), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
    }
}
