//! The PMI client against a server in memory that answers as Hydra does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::*;

type Store = Arc<Mutex<HashMap<String, String>>>;

/// Serves one rank; returns the commands it was sent.
fn serve(stream: &UnixStream, store: &Store, barrier: &Barrier) -> Vec<String> {
    let mut said = Vec::new();
    for line in BufReader::new(stream).lines().map_while(std::result::Result::ok) {
        let key = field(&line, "key").unwrap_or_default().to_owned();
        let answer = match field(&line, "cmd").unwrap() {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1_0".to_owned(),
            "put" => {
                store
                    .lock()
                    .unwrap()
                    .insert(key, field(&line, "value").unwrap().to_owned());
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            "barrier_in" => {
                barrier.wait();
                "cmd=barrier_out".to_owned()
            }
            "get" => match store.lock().unwrap().get(&key) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=not_found value=unknown".to_owned(),
            },
            "finalize" => "cmd=finalize_ack".to_owned(),
            other => panic!("{other}"),
        };
        let end = answer == "cmd=finalize_ack";
        // In two pieces, as the network may deliver it.
        let (head, tail) = answer.split_at(answer.len() / 2);
        (&*stream).write_all(head.as_bytes()).unwrap();
        thread::yield_now();
        (&*stream).write_all(format!("{tail}\n").as_bytes()).unwrap();
        said.push(line);
        if end {
            break;
        }
    }
    said
}

fn open(stream: &UnixStream, limit: Duration) -> Result<Pmi> {
    let fd = stream.as_raw_fd().to_string();
    Pmi::open(
        &|name| (name == "PMI_FD").then(|| fd.clone()),
        Instant::now() + limit,
    )
}

#[test]
fn a_value_of_rank_0_reaches_the_others() {
    let store = Store::default();
    let barrier = Arc::new(Barrier::new(3));
    let value = "ab".repeat(128);
    let ranks: Vec<_> = (0..3)
        .map(|rank| {
            let (client, server) = UnixStream::pair().unwrap();
            let (store, barrier) = (Arc::clone(&store), Arc::clone(&barrier));
            let served = thread::spawn(move || serve(&server, &store, &barrier));
            let mine = (rank == 0).then(|| value.clone());
            let got = thread::spawn(move || {
                let mut pmi = open(&client, Duration::from_secs(20)).unwrap();
                let got = pmi.exchange(mine.as_deref()).unwrap();
                drop(pmi);
                got
            });
            (got, served)
        })
        .collect();
    for (rank, (got, served)) in ranks.into_iter().enumerate() {
        assert_eq!(got.join().unwrap(), value, "rank {rank}");
        let said = served.join().unwrap();
        assert_eq!(
            said.last().map(String::as_str),
            Some("cmd=finalize"),
            "it took its leave"
        );
    }
}

#[test]
fn trouble_with_the_server_is_told_without_the_value() {
    let store = Store::default();
    let (client, server) = UnixStream::pair().unwrap();
    let barrier = Barrier::new(1);
    let served = thread::spawn(move || serve(&server, &store, &barrier));
    let mut pmi = open(&client, Duration::from_secs(20)).unwrap();
    let error = pmi.exchange(None).unwrap_err();
    assert!(
        error
            .message()
            .contains("refused `cmd=get kvsname=kvs_1_0 key=infiniccl-root` with code -1"),
        "{error}"
    );
    drop(pmi);
    served.join().unwrap();
    assert_eq!(shown("cmd=put key=k value=secret"), "cmd=put key=k");
}

#[test]
fn a_server_that_is_silent_or_gone_ends_the_wait() {
    let (client, server) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let error = open(&client, Duration::from_millis(100)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(server);
    assert!(
        open(&client, Duration::from_secs(5))
            .map(|_| ())
            .unwrap_err()
            .message()
            .contains("PMI server")
    );
}

#[test]
fn a_stale_variable_is_named() {
    for fd in ["x", "1", "9999", "-1"] {
        let env = |name: &str| (name == "PMI_FD").then(|| fd.to_owned());
        let error = Pmi::open(&env, Instant::now()).map(|_| ()).unwrap_err();
        assert!(error.message().contains(&format!("PMI_FD={fd}")), "{error}");
    }
}
