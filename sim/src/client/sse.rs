//! Server-sent events out of a stream of bytes, as far as completions need them: `data:` lines.
//!
//! Not here: what the data mean (`chat`).

/// Longest event taken; a stream without line ends must not fill the memory.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Collects bytes until lines are whole.
#[derive(Debug, Default)]
pub(super) struct Events {
    buffer: Vec<u8>,
}

impl Events {
    /// Takes bytes as they arrive.
    ///
    /// # Errors
    /// When one line is longer than the bound.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > EVENT_BYTES_MAX && !self.buffer.contains(&b'\n') {
            return Err(format!("an event is longer than {EVENT_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// The data of the next whole event.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let end = self.buffer.iter().position(|&byte| byte == b'\n')?;
            let line: Vec<_> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(data) = line.strip_prefix("data:") {
                return Some(data.trim().to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_cut_anywhere_come_out_whole() {
        let text = "data: {\"a\": \"ü\"}\n\n: note\r\n\r\ndata:[DONE]\n\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let mut seen = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.push(piece).expect("short");
                seen.extend(std::iter::from_fn(|| events.next()));
            }
            assert_eq!(seen, ["{\"a\": \"ü\"}", "[DONE]"]);
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        assert!(Events::default().push(&vec![b'x'; EVENT_BYTES_MAX + 1]).is_err());
    }
}
