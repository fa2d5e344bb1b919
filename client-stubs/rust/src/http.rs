// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1, as far as the sidecar needs it: one request at a time on a connection, bodies with a length or in chunks.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::error::{Error, SidecarError};
use crate::options::Options;

/// The sidecar is on this machine: it answers at once or not at all.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 64 << 10;
/// A buffer: it has two chunks of the sidecar.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers whose memory is used again as soon as the app has none of their records.
const BUFFERS_MAX: usize = 16;
/// Less room is not worth a read.
const READ_BYTES_MIN: usize = 32 << 10;
/// A body, or a chunk, is decoded when so much of it has arrived.
const PIECE_BYTES: usize = 256 << 10;

/// Where the sidecar listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    /// Parses `http://HOST:PORT` or `unix:/PATH`.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        if let Some(path) = url.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(Error::InvalidOption(format!("the path of a Unix socket must be absolute, got {url}")));
            }
            return Ok(Address::Unix(path.into()));
        }
        let authority = url.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        authority.and_then(parse_authority).ok_or_else(|| {
            Error::InvalidOption(format!("the address must be http://HOST:PORT or unix:/PATH, got {url}"))
        })
    }

    fn host_header(&self) -> String {
        match self {
            Address::Unix(_) => "localhost".into(),
            Address::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Address::Tcp { host, port } => format!("{host}:{port}"),
        }
    }
}

fn parse_authority(authority: &str) -> Option<Address> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, 80),
    };
    let plain = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let is_valid = match plain {
        Some(inner) => inner.contains(':'),
        None => !host.is_empty() && !host.contains(['/', '@', '?', '#', ':', '[', ']', ' ']),
    };
    is_valid.then(|| Address::Tcp { host: plain.unwrap_or(host).into(), port })
}

pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A connection, and the bytes that were read and are not decoded.
pub(crate) struct Connection {
    socket: Box<dyn Socket>,
    raw: BytesMut,
    /// Handles of earlier buffers, the oldest first. They have no bytes.
    used: VecDeque<BytesMut>,
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> io::Result<Self> {
        let opened = timeout(ANSWER_MAX, connect(address)).await;
        let socket =
            opened.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s")))?;
        Ok(Connection { socket, raw: BytesMut::new(), used: VecDeque::new() })
    }

    pub(crate) async fn send(
        &mut self,
        options: &Options,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
    ) -> io::Result<()> {
        let accept = if body.is_none() && method == "GET" { "application/x-protobuf" } else { "application/json" };
        let host = options.address.host_header();
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n");
        if let Some(path) = &options.token_file {
            // Tokens are rotated: the file is read for each request.
            let token = std::fs::read_to_string(path)?;
            request += &format!("Authorization: Bearer {}\r\n", token.trim());
        }
        if let Some(body) = body {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let mut request = (request + "\r\n").into_bytes();
        request.extend_from_slice(body.unwrap_or_default());
        self.socket.write_all(&request).await
    }

    /// Reads the head of the response.
    pub(crate) async fn response(&mut self) -> io::Result<Response> {
        loop {
            if let Some(end) = self.raw.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let response = Response::parse(&self.raw[..end])?;
                self.raw.advance(end + 4);
                if response.status >= 200 {
                    return Ok(response);
                }
                continue; // 100 Continue.
            }
            if self.raw.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("the head of the response is too long"));
            }
            self.fill().await?;
        }
    }

    /// Appends a piece of the body to `body` if one has arrived; else waits for more bytes.
    pub(crate) async fn read(&mut self, response: &mut Response, body: &mut BytesMut) -> io::Result<()> {
        if response.decode(&mut self.raw, body)? {
            return Ok(());
        }
        self.fill().await
    }

    pub(crate) async fn read_all(&mut self, response: &mut Response) -> io::Result<BytesMut> {
        let mut body = BytesMut::new();
        while response.body != Body::Complete {
            self.read(response, &mut body).await?;
        }
        Ok(body)
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.raw.capacity() - self.raw.len() < READ_BYTES_MIN {
            self.change_buffer();
        }
        if self.socket.read_buf(&mut self.raw).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sidecar closed the connection"));
        }
        Ok(())
    }
}

impl Connection {
    /// Moves the rest of the bytes to a buffer with room. Fresh memory costs the kernel more than the copy.
    fn change_buffer(&mut self) {
        self.used.push_back(self.raw.split_off(self.raw.len()));
        let room = self.raw.len() + BUFFER_BYTES;
        let is_free = self.used.front_mut().is_some_and(|oldest| oldest.try_reclaim(room));
        let oldest = if is_free || self.used.len() > BUFFERS_MAX { self.used.pop_front() } else { None };
        let mut buffer = oldest.filter(|_| is_free).unwrap_or_else(|| BytesMut::with_capacity(room));
        buffer.extend_from_slice(&self.raw);
        self.raw = buffer;
    }
}

async fn connect(address: &Address) -> io::Result<Box<dyn Socket>> {
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Bytes to come.
    Length(usize),
    /// The line that begins a chunk, or that ends one.
    Line {
        ends_chunk: bool,
    },
    /// Bytes to come of a chunk.
    Chunk(usize),
    Complete,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    keeps_connection: bool,
    body: Body,
}

impl Response {
    fn parse(head: &[u8]) -> io::Result<Self> {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok())
            .ok_or_else(|| io::Error::other("not a response of HTTP/1.1"))?;
        let mut response = Response { status, retry_after: None, keeps_connection: true, body: Body::Length(0) };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            response.take_header(&name.to_ascii_lowercase(), value.trim())?;
        }
        if response.body == Body::Length(0) {
            response.body = Body::Complete;
        }
        Ok(response)
    }

    fn take_header(&mut self, name: &str, value: &str) -> io::Result<()> {
        match name {
            "transfer-encoding" => self.body = Body::Line { ends_chunk: false },
            "content-length" if self.body == Body::Length(0) => {
                self.body = Body::Length(value.parse().map_err(io::Error::other)?);
            }
            "connection" => self.keeps_connection = !value.eq_ignore_ascii_case("close"),
            "retry-after" => self.retry_after = value.parse().ok().map(Duration::from_secs),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.body == Body::Complete
    }

    /// Moves a piece of the body from `raw` to `into`, mostly without a copy. False: more bytes are needed.
    fn decode(&mut self, raw: &mut BytesMut, into: &mut BytesMut) -> io::Result<bool> {
        loop {
            match &mut self.body {
                Body::Length(left) | Body::Chunk(left) => {
                    if raw.len() < PIECE_BYTES.min(*left) {
                        return Ok(false);
                    }
                    let piece = raw.split_to(raw.len().min(*left));
                    *left -= piece.len();
                    into.unsplit(piece);
                    self.body = match self.body {
                        Body::Length(0) => Body::Complete,
                        Body::Chunk(0) => Body::Line { ends_chunk: true },
                        body => body,
                    };
                    return Ok(true);
                }
                Body::Line { ends_chunk } => {
                    let Some(end) = raw.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n') else {
                        let is_too_long = raw.len() >= HEAD_BYTES_MAX;
                        return if is_too_long {
                            Err(io::Error::other("the head of a chunk is too long"))
                        } else {
                            Ok(false)
                        };
                    };
                    let line = raw.split_to(end + 1);
                    self.body = if *ends_chunk { Body::Line { ends_chunk: false } } else { chunk_of(&line)? };
                }
                Body::Complete => return Ok(true),
            }
        }
    }
}

/// The body behind the line that begins a chunk. The sidecar sends no trailers: the empty line after the last chunk is
/// left, and the connection is not used again.
fn chunk_of(line: &[u8]) -> io::Result<Body> {
    let size = std::str::from_utf8(line).ok().and_then(|line| line.split(';').next());
    match size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok()) {
        Some(0) => Ok(Body::Complete),
        Some(size) => Ok(Body::Chunk(size)),
        None => Err(io::Error::other("the size of a chunk is not a number")),
    }
}

/// Why a request has no answer that can be used.
pub(crate) enum CallError {
    Io(io::Error),
    Refused(SidecarError),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        CallError::Io(error)
    }
}

/// Requests and their answers, one at a time, over a connection that is kept.
#[derive(Default)]
pub(crate) struct Caller {
    connection: Option<Connection>,
}

impl Caller {
    /// Returns the body of the answer. A kept connection may have been closed while it was idle: then the request is
    /// sent once more. The requests of this package may all be repeated.
    pub(crate) async fn call(
        &mut self,
        options: &Options,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        max: Duration,
    ) -> Result<BytesMut, CallError> {
        let was_kept = self.connection.is_some();
        match self.attempt(options, method, target, body, max).await {
            Err(CallError::Io(error)) if was_kept && error.kind() != io::ErrorKind::TimedOut => {
                self.attempt(options, method, target, body, max).await
            }
            answer => answer,
        }
    }

    async fn attempt(
        &mut self,
        options: &Options,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        max: Duration,
    ) -> Result<BytesMut, CallError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&options.address).await?,
        };
        let exchange = async {
            connection.send(options, method, target, body).await?;
            let mut response = connection.response().await?;
            let is_chunked = matches!(response.body, Body::Line { .. });
            let content = connection.read_all(&mut response).await?;
            response.keeps_connection &= !is_chunked;
            Ok((response, content))
        };
        let answer = timeout(max, exchange).await;
        let (response, content) = answer
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {max:?}"))))?;
        if response.keeps_connection {
            self.connection = Some(connection);
        }
        if response.status >= 400 {
            return Err(CallError::Refused(SidecarError::of_response(response.status, response.retry_after, &content)));
        }
        Ok(content)
    }
}
