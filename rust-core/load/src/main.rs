//! Asks servers as fast as they answer, at little cost of its own and of theirs: for benches on machines whose processors servers
//! and whoever asks have to share (tests/bench/asking.ts). Two system calls an answer. It never waits for a connection, so that
//! no server has to wake anybody when it replies, which costs it as much as the rest of a reply: it looks at all connections in
//! turn, and sleeps a little where few have brought a reply.
//!
//! `keyhush-load <connections> <milliseconds> <address>…`: so many connections to each address, each with one request under
//! way. Reads the questions, each as the length of the request (u32, little-endian), the request, the length of the reply's
//! body, the body. Prints how many replies there were; fails if one was another.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Shorter than a server takes for the requests that are with it meanwhile.
const PAUSE: Duration = Duration::from_micros(100);

fn main() -> ExitCode {
    match run() {
        Ok(answered) => {
            println!("{answered}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("keyhush-load: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<u64, String> {
    let mut args = std::env::args().skip(1);
    let mut number =
        || args.next().and_then(|text| text.parse::<u32>().ok()).ok_or("expected two numbers and addresses");
    let (connections, time) = (number()?, Duration::from_millis(number()?.into()));
    let addresses: Vec<String> = args.collect();
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).map_err(said)?;
    let questions = questions(&input);
    if questions.is_empty() {
        return Err("no questions".into());
    }
    let mut standing = Vec::new();
    for i in 0..connections {
        for address in &addresses {
            standing.push(Connection::open(address, &questions, i as usize).map_err(said)?);
        }
    }
    let until = Instant::now() + time;
    let mut answered: u64 = 0;
    loop {
        let before = answered;
        for connection in &mut standing {
            if connection.take()? {
                answered += 1;
            }
        }
        if Instant::now() >= until {
            return Ok(answered);
        }
        if answered - before < standing.len() as u64 / 2 {
            sleep(PAUSE);
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn said(error: io::Error) -> String {
    error.to_string()
}

struct Question<'a> {
    request: &'a [u8],
    answer: &'a [u8],
}

fn questions(mut input: &[u8]) -> Vec<Question<'_>> {
    let mut next = || {
        let (length, rest) = input.split_first_chunk()?;
        let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        input = rest;
        Some(piece)
    };
    let mut questions = Vec::new();
    while let (Some(request), Some(answer)) = (next(), next()) {
        questions.push(Question { request, answer });
    }
    questions
}

struct Connection<'a> {
    stream: TcpStream,
    questions: &'a [Question<'a>],
    /// the question that is under way
    asked: usize,
    reply: Vec<u8>,
    length: usize,
}

impl<'a> Connection<'a> {
    fn open(address: &str, questions: &'a [Question<'a>], first: usize) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let most = questions.iter().map(|question| question.answer.len()).max().unwrap_or(0);
        let reply = vec![0; most + (1 << 14)];
        let mut connection = Self { stream, questions, asked: first % questions.len(), reply, length: 0 };
        connection.stream.write_all(questions[connection.asked].request)?;
        Ok(connection)
    }

    /// Takes what has come of the reply, and sends the next request if that is all; returns whether it is.
    fn take(&mut self) -> Result<bool, String> {
        match self.stream.read(&mut self.reply[self.length..]) {
            Ok(0) => return Err("a connection has ended".into()),
            Ok(more) => self.length += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        let reply = &self.reply[..self.length];
        let Some(whole) = whole_length(reply) else { return Ok(false) };
        if self.length < whole {
            return Ok(false);
        }
        let answer = self.questions[self.asked].answer;
        if !reply.starts_with(b"HTTP/1.1 200 ") || !reply.ends_with(answer) || self.length > whole {
            return Err("a reply is another than it was".into());
        }
        self.length = 0;
        self.asked = (self.asked + 1) % self.questions.len();
        self.stream.write_all(self.questions[self.asked].request).map_err(said)?;
        Ok(true)
    }
}

/// Of a reply, once its head is there.
fn whole_length(reply: &[u8]) -> Option<usize> {
    let head = reply.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let lines = std::str::from_utf8(&reply[..head]).ok()?.lines();
    let mut lengths = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head + lengths.next()?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that replies to one request with these pieces, one after the other.
    fn asked(pieces: &[&'static [u8]]) -> Result<bool, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let pieces = pieces.to_vec();
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 3]).unwrap();
            for piece in pieces {
                stream.write_all(piece).unwrap();
                stream.flush().unwrap();
            }
            let _ = stream.read(&mut [0; 3]); // the next request
        });
        let questions = [Question { request: b"ask", answer: b"said" }];
        let mut connection = Connection::open(&address, &questions, 0).unwrap();
        let taken = loop {
            match connection.take() {
                Ok(false) => thread::yield_now(),
                taken => break taken,
            }
        };
        drop(connection);
        serving.join().unwrap();
        taken
    }

    #[test]
    fn a_reply_is_right_however_it_comes_in_pieces_and_another_is_told() {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
        assert_eq!(asked(&[HEAD, b"said"]), Ok(true));
        assert_eq!(asked(&[&HEAD[..30], &HEAD[30..], b"sa", b"id"]), Ok(true));
        assert!(asked(&[HEAD, b"sadi"]).is_err());
        assert!(asked(&[b"HTTP/1.1 503 Not\r\nContent-Length: 4\r\n\r\n", b"said"]).is_err());
    }

    #[test]
    fn questions_are_read_in_pairs() {
        let input = b"\x03\0\0\0ask\x04\0\0\0said\x01\0\0\0?";
        let read: Vec<_> = questions(input).iter().map(|question| (question.request, question.answer)).collect();
        assert_eq!(read, [(&b"ask"[..], &b"said"[..])]);
    }
}
