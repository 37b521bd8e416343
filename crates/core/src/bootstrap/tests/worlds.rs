//! Worlds of processes that meet by what torchrun's variables, a file, or a root address and a secret say.

use super::processes::Actor;
use super::*;
use crate::bootstrap::environment::{join_from_environment, process_env};

/// Joins by its environment, twice, and says what came of it.
pub(super) fn world() {
    let config = Config::load(None).unwrap();
    for round in 0..2u32 {
        let plane = match join_from_environment(&config, &process_env) {
            Ok(plane) => plane,
            Err(error) => return println!("error: {error}"),
        };
        let (rank, size) = (plane.rank(), plane.size());
        let records = plane.allgather("world", &blob(rank, round), soon()).unwrap();
        assert_eq!(records, (0..size).map(|r| blob(r, round)).collect::<Vec<_>>());
        let addresses: Vec<_> = plane.members().iter().flat_map(|m| m.addresses.clone()).collect();
        println!("world {round}: rank {rank} of {size}, {addresses:?}");
        plane.close(soon());
    }
    println!("done");
}

fn private_folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

/// Starts a rank of a world with torchrun's variables and those of `more`.
fn start_rank(rank: u32, size: u32, local_size: u32, more: &[(&str, String)]) -> Actor {
    let mut variables = vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_WORLD_SIZE", local_size.to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
    ];
    variables.extend_from_slice(more);
    Actor::start("world", &variables)
}

fn start_world(size: u32, local_size: u32, more: &[(&str, String)]) -> Vec<Actor> {
    (0..size)
        .map(|rank| start_rank(rank, size, local_size, more))
        .collect()
}

#[test]
fn ranks_of_one_host_meet_through_a_file_while_the_master_port_is_taken() {
    let runtime = private_folder();
    let master = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let more = [
        ("XDG_RUNTIME_DIR", runtime.path().to_str().unwrap().to_owned()),
        ("MASTER_PORT", master.local_addr().unwrap().port().to_string()),
    ];
    let ranks = start_world(3, 3, &more);
    for (rank, actor) in ranks.iter().enumerate() {
        assert!(actor.says("world 0").contains(&format!("rank {rank} of 3")));
        assert!(
            actor
                .says("world 1")
                .contains(&format!("rank {rank} of 3, [127.0.0.1:")),
            "all is on loopback"
        );
        actor.says("done");
    }
    let left = std::fs::read_dir(runtime.path().join("infiniccl"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "the file is gone");
}

#[test]
fn ranks_meet_at_the_root_address_with_a_secret_and_a_wrong_one_is_refused() {
    let (reserved, root) = reserve();
    let folder = private_folder();
    let config = folder.path().join("impatient.toml");
    std::fs::write(&config, "[timeouts]\nconnect = 1.5\n").unwrap();
    let root = ("INFINICCL_ROOT", root.to_string());
    let with_secret = |text: &str| [root.clone(), ("INFINICCL_SECRET", text.to_owned())];
    let right = with_secret("the secret of this test");
    let first = start_rank(0, 3, 2, &right);
    let mut wrong = with_secret("another secret of this test").to_vec();
    wrong.push(("INFINICCL_CONFIG", config.to_str().unwrap().to_owned()));
    let line = start_rank(1, 3, 2, &wrong).says("error");
    assert!(
        line.contains("INFINICCL_SECRET differs") && !line.contains("of this test"),
        "{line}"
    );
    let others = [start_rank(1, 3, 2, &right), start_rank(2, 3, 2, &right)];
    others
        .iter()
        .chain([&first])
        .for_each(|actor| drop(actor.says("done")));
    drop(reserved);
}

/// A port that nobody is given by chance while the socket lives, and on which rank 0 may listen.
fn reserve() -> (socket2::Socket, SocketAddr) {
    let (listener, reserved) =
        crate::bootstrap::listen::listen_and_reserve(&["127.0.0.1:0".parse().unwrap()], None)
            .unwrap()
            .remove(0);
    (reserved, listener.local_addr().unwrap())
}

#[test]
fn a_world_without_a_way_to_meet_is_an_error_that_names_what_to_set() {
    let alone = start_world(2, 1, &[]);
    let line = alone[1].says("error");
    assert!(
        line.contains("rank 1 of 2") && line.contains("INFINICCL_ROOT") && line.contains("INFINICCL_SECRET"),
        "{line}"
    );
    let no_secret = start_world(2, 1, &[("INFINICCL_ROOT", "127.0.0.1:9".into())]);
    assert!(no_secret[0].says("error").contains("INFINICCL_SECRET"));
    let elsewhere = ("INFINICCL_ROOT", "192.0.2.9:99".to_owned());
    let elsewhere = start_world(2, 1, &[elsewhere, ("INFINICCL_SECRET", "s3cret".into())]);
    let line = elsewhere[0].says("error");
    assert!(
        line.contains("192.0.2.9") && line.contains("no address of this host"),
        "{line}"
    );
}
