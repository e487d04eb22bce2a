//! A bounded parser of server-sent events: bytes in, whole `data` payloads out.
//!
//! Not here: what the payloads mean (`wire`, `admin::stream`). A line or event beyond its bound is refused, so an endless one costs at
//! most [`EVENT_BYTES_MAX`] (I9).

/// Most bytes of one line, and of one event's data.
pub(super) const EVENT_BYTES_MAX: usize = 4 << 20;

/// A line or event has more than [`EVENT_BYTES_MAX`] bytes. Fault: the sender. The parser must not be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlong;

/// Reads events off a stream, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_return: bool,
    lines: u64,
}

impl SseParser {
    /// Takes the next piece and appends the data of every event it completes to `events`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<Vec<u8>>) -> Result<(), Overlong> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&bytes[..at])?;
            self.end_line(events)?;
            let returned = bytes[at] == b'\r';
            bytes = &bytes[at + 1..];
            self.after_return = returned && bytes.is_empty();
            if returned {
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.extend_line(bytes)
    }

    /// Whether a whole line that could be part of an event stream was seen, be it a comment.
    pub(super) const fn has_spoken(&self) -> bool {
        self.lines > 0
    }

    /// The stream is over: an event that only lacks its empty line counts (some engines leave it out at the end).
    pub(super) fn finish(&mut self, events: &mut Vec<Vec<u8>>) -> Result<(), Overlong> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.end_event(events);
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), Overlong> {
        if self.line.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(Overlong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Vec<u8>>) -> Result<(), Overlong> {
        if self.line.is_empty() {
            self.end_event(events);
            return Ok(());
        }
        let (field, value) = match self.line.iter().position(|byte| *byte == b':') {
            Some(at) => (&self.line[..at], &self.line[at + 1..]),
            None => (&self.line[..], &[][..]),
        };
        if matches!(field, b"data" | b"event" | b"id" | b"retry" | b"") {
            self.lines += 1;
        }
        if field == b"data" {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if self.data.len() + value.len() > EVENT_BYTES_MAX {
                return Err(Overlong);
            }
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
            self.has_data = true;
        }
        self.line.clear();
        Ok(())
    }

    fn end_event(&mut self, events: &mut Vec<Vec<u8>>) {
        if self.has_data {
            self.has_data = false;
            events.push(std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": ping\r\n\r\ndata: {\"a\":1}\n\nevent: x\rdata: two\rdata:lines\r\rid: 7\n\ndata\n\ndata: [DONE]\n\n";

    fn expected() -> Vec<Vec<u8>> {
        [&b"{\"a\":1}"[..], b"two\nlines", b"", b"[DONE]"].iter().map(|data| data.to_vec()).collect()
    }

    #[test]
    fn any_cut_of_the_stream_gives_the_same_events() {
        for size in 1..STREAM.len() {
            let mut parser = SseParser::default();
            let mut events = Vec::new();
            for piece in STREAM.chunks(size) {
                parser.feed(piece, &mut events).expect("short");
            }
            parser.finish(&mut events).expect("short");
            assert_eq!(events, expected(), "pieces of {size}");
        }
    }

    #[test]
    fn a_last_event_without_its_empty_line_counts_at_the_end() {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        parser.feed(b"data: [DONE]", &mut events).expect("short");
        assert!(events.is_empty());
        parser.finish(&mut events).expect("short");
        assert_eq!(events, [b"[DONE]".to_vec()]);
    }

    #[test]
    fn an_endless_line_and_an_endless_event_are_refused() {
        let mut events = Vec::new();
        let piece = vec![b'x'; 64 << 10];
        let mut parser = SseParser::default();
        let fed = (0..1_000).find_map(|i| parser.feed(&piece, &mut events).err().map(|_| i));
        assert_eq!(fed, Some(EVENT_BYTES_MAX / piece.len()));
        let mut parser = SseParser::default();
        let line = [b"data: ", &piece[..], b"\n"].concat();
        assert!((0..1_000).any(|_| parser.feed(&line, &mut events).is_err()));
        assert!(parser.data.len() <= EVENT_BYTES_MAX + 1_000);
    }

    #[test]
    fn html_does_not_speak() {
        let mut parser = SseParser::default();
        parser.feed(b"<html>\n<a href=\"x:y\">\n", &mut Vec::new()).expect("short");
        assert!(!parser.has_spoken());
        parser.feed(b": keep-alive\n\n", &mut Vec::new()).expect("short");
        assert!(parser.has_spoken());
    }
}
