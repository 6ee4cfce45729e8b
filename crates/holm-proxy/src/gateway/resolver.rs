//! The DNS server of a workspace, over UDP and TCP. It answers address questions for allowed names only, with
//! substitute addresses that the gateway maps back to the name.

use super::{Gateway, LookupFailure, Surroundings};
use crate::dns::{Code, Kind, Question, Read, read};
use holm_core::service_network::Meaning;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// TTL of answers. The mapping from address to name changes only when the name is evicted.
const SECONDS: u32 = 20;

/// Lookups that run at the same time.
const MOST_QUESTIONS: usize = 256;
const MOST_STREAMS: usize = 64;
const IDLE_STREAM: Duration = Duration::from_secs(10);

/// The largest UDP message read. EDNS clients send at most this much.
const LONGEST: usize = 4096;

pub async fn serve_datagrams<S: Surroundings>(gateway: Gateway<S>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let slots = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let mut buffer = [0; LONGEST];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // The kernel reports here that the client of an earlier answer had closed its socket.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        };
        let question = match read(&buffer[..length]) {
            Read::Nothing => continue,
            Read::Answer(answer) => {
                // Errors are ignored here and below because the client may be gone.
                let _ = socket.send_to(&answer, client).await;
                continue;
            }
            Read::Question(question) => question,
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            gateway.too_many_questions(&question.name);
            let answer = question.answer(Code::Failed, &[], 0);
            let _ = socket.send_to(&answer, client).await;
            continue;
        };
        let (gateway, socket) = (gateway.clone(), Arc::clone(&socket));
        tokio::spawn(async move {
            let answer = answer(&gateway, client.ip(), &question).await;
            let _ = socket.send_to(&answer, client).await;
            drop(slot);
        });
    }
}

pub async fn serve_streams<S: Surroundings>(gateway: Gateway<S>, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(MOST_STREAMS));
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            // Out of descriptors: wait until other connections close theirs.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            continue;
        };
        let gateway = gateway.clone();
        tokio::spawn(async move {
            // Ends when the client closes, sends an invalid message, or stays silent.
            let _ = serve_stream(&gateway, client.ip(), stream).await;
            drop(slot);
        });
    }
}

async fn serve_stream<S: Surroundings>(
    gateway: &Gateway<S>,
    asking: IpAddr,
    mut stream: TcpStream,
) -> io::Result<()> {
    loop {
        let length = timeout(IDLE_STREAM, stream.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        timeout(IDLE_STREAM, stream.read_exact(&mut message)).await??;
        let answer = match read(&message) {
            Read::Nothing => return Ok(()),
            Read::Answer(answer) => answer,
            Read::Question(question) => answer(gateway, asking, &question).await,
        };
        let mut whole = (answer.len() as u16).to_be_bytes().to_vec();
        whole.extend(answer);
        timeout(IDLE_STREAM, stream.write_all(&whole)).await??;
    }
}

async fn answer<S: Surroundings>(
    gateway: &Gateway<S>,
    asking: IpAddr,
    question: &Question,
) -> Vec<u8> {
    let among_services = gateway.surroundings().meaning(asking, &question.name);
    let found = match (among_services, question.kind) {
        (Meaning::Services(addresses), _) => Ok(addresses.into_iter().map(IpAddr::V4).collect()),
        (Meaning::Nothing, _) => Err(LookupFailure::NoSuchName),
        // For a name that the policy forbids, every record type answers NXDOMAIN.
        (Meaning::Elsewhere, Kind::Other) => gateway.may_ask(&question.name).map(|()| Vec::new()),
        (Meaning::Elsewhere, Kind::V4 | Kind::V6) => gateway.resolve(&question.name).await,
    };
    let wanted = |address: &IpAddr| address.is_ipv4() == (question.kind == Kind::V4);
    match found {
        Ok(mut addresses) => {
            addresses.retain(wanted);
            question.answer(Code::Good, &addresses, SECONDS)
        }
        Err(LookupFailure::NoSuchName) => question.answer(Code::NoSuchName, &[], 0),
        Err(LookupFailure::Failed) => question.answer(Code::Failed, &[], 0),
    }
}
