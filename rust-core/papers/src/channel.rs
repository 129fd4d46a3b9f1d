//! The channel between a client and a server. It passes bytes on and counts them.

use crate::error::Error;

/// Counts the bytes of a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// bytes from the client to the server
    pub up: usize,
    /// bytes from the server to the client
    pub down: usize,
}

impl Channel {
    /// Sends a request and returns the server's answer.
    pub fn ask(
        &mut self,
        request: &[u8],
        server: impl FnOnce(&[u8]) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        self.up += request.len();
        let answer = server(request)?;
        self.down += answer.len();
        Ok(answer)
    }

    /// Passes on a piece of a stream from the server.
    pub fn receive<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        self.down += piece.len();
        piece
    }

    /// Passes on a piece of a stream from the client.
    pub fn send<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        self.up += piece.len();
        piece
    }
}
