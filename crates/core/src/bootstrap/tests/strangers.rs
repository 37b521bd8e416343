//! Strangers at the ports of a job that forms: bytes of all kinds, silence, resets, floods and replays.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use socket2::SockRef;

use super::*;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// A job of three ranks forms at `id` and exchanges; panics when it does not.
fn job_works(id: UniqueId) {
    let results = each_rank(0..3, move |rank| {
        let plane = join(id, rank, 3, &settings()).unwrap();
        let records = plane.allgather("test", &blob(rank, 1), soon()).unwrap();
        assert_eq!(records, (0..3).map(|r| blob(r, 1)).collect::<Vec<_>>());
        plane.close(soon());
    });
    collect(&results, 3);
}

#[test]
fn random_bytes_requests_and_resets_cost_only_their_own_connection() {
    let id = new_id();
    let address = id.addresses()[0];
    let mut state = 0x1234_5678_9abc_def1u64;
    for round in 0..60u32 {
        let mut stream = connect(address);
        let _ = match round % 6 {
            0 => stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            1 => stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            2 => SockRef::from(&stream).set_linger(Some(Duration::ZERO)),
            3 => stream.write_all(&b"ICCL\x01\x00"[..(round as usize % 7).min(6)]),
            4 => Ok(()),
            _ => {
                let bytes: Vec<u8> = (0..4096)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 56) as u8
                    })
                    .collect();
                stream.write_all(&bytes)
            }
        };
    }
    job_works(id);
}

#[test]
fn hundreds_of_silent_connections_do_not_keep_ranks_out() {
    let id = new_id();
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(id.addresses()[0])).collect();
    let begun = Instant::now();
    job_works(id);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "the job started within 5 s"
    );
    drop(silent);
}

#[test]
fn a_stranger_is_disconnected_at_its_first_wrong_byte_and_hears_nothing() {
    let id = new_id();
    let mut stream = connect(id.addresses()[0]);
    stream.write_all(b"G").unwrap();
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    assert!(end.is_err() || answer.is_empty(), "{answer:?}");
    job_works(id);
}

#[test]
fn a_recorded_arrival_cannot_be_replayed() {
    let id = new_id();
    // A relay in front of the root records what a true rank says.
    let relay = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let through = UniqueId::new(&id.key(), id.nonce(), &[relay.local_addr().unwrap()]);
    let root = id.addresses()[0];
    let recorder = thread::spawn(move || {
        let (rank, _) = relay.accept().unwrap();
        let server = connect(root);
        let (mut from, mut to) = (server.try_clone().unwrap(), rank.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut said = Vec::new();
        let mut buffer = [0u8; 4096];
        while let Ok(n @ 1..) = (&rank).read(&mut buffer) {
            said.extend_from_slice(&buffer[..n]);
            (&server).write_all(&buffer[..n]).unwrap();
        }
        let _ = server.shutdown(Shutdown::Both);
        said
    });
    let results = each_rank(0..2, move |rank| {
        let plane = join(if rank == 1 { through } else { id }, rank, 2, &settings()).unwrap();
        plane.close(soon());
    });
    collect(&results, 2);
    let said = recorder.join().unwrap();
    assert!(said.len() > 90, "hello, claim and record were recorded");

    let again = UniqueId::new(&id.key(), id.nonce(), &[free_address()]);
    super::super::rendezvous::serve(&again, listen(&again.addresses(), None).unwrap()).unwrap();
    let mut stream = connect(again.addresses()[0]);
    stream.write_all(&said).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    job_works(again);
}
