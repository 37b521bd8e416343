//! Which way ranks meet, and what secrets and root addresses mean; whole worlds run in `tests/processes.rs`.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn wish_of(variables: &str, set: &[(&str, &str)]) -> Result<Way> {
    let all: Vec<(&str, &str)> = variables
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .collect();
    let env = |name: &str| {
        all.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let mut config = Config::built_in();
    set.iter()
        .for_each(|(key, value)| config.set(key, value).unwrap());
    let launch = detect(&env)?.unwrap();
    let settings = Settings::from_config(&config);
    let wish = Wish {
        launch: &launch,
        config: &config,
        settings: &settings,
        env: &env,
        deadline: Instant::now(),
    };
    let has_secret = secret(&config)?.is_some();
    choose(&wish, has_secret)
}

#[test]
fn the_first_way_that_is_there_is_taken() {
    let ompi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_NAMESPACE=n PMIX_RANK=1";
    let root = [("job.root", "10.0.0.1:99"), ("job.secret", "s")];
    assert_eq!(wish_of(ompi, &[]).unwrap(), Way::Pmix);
    assert_eq!(
        wish_of(ompi, &root).unwrap(),
        Way::Root,
        "what the operator says comes first"
    );
    assert_eq!(wish_of("PMI_RANK=1 PMI_SIZE=4 PMI_FD=8", &[]).unwrap(), Way::Pmi);
    assert_eq!(
        wish_of("PMI_RANK=1 PMI_SIZE=4 PMI_PORT=h:1", &[]).unwrap(),
        Way::Pmi
    );
    assert_eq!(
        wish_of("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2", &[]).unwrap(),
        Way::File
    );
    assert_eq!(
        wish_of(
            "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=1 PMIX_NAMESPACE=n PMIX_RANK=1",
            &[]
        )
        .unwrap(),
        Way::Pmix
    );
    // A torchrun that mpirun started: the store counts agents, not ranks.
    let nested = "RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 \
                  PMIX_NAMESPACE=n PMIX_RANK=1";
    assert_eq!(wish_of(nested, &[]).unwrap_err().kind(), ErrorKind::InvalidUsage);
    assert_eq!(wish_of(nested, &root).unwrap(), Way::Root);
}

#[test]
fn no_way_is_an_error_that_names_what_to_set() {
    for env in [
        "RANK=1 WORLD_SIZE=4",
        "RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4",
        "PMI_RANK=0 PMI_SIZE=4",
        "SLURM_PROCID=0 SLURM_NTASKS=4",
    ] {
        let error = wish_of(env, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage, "{env}");
        for name in ["INFINICCL_ROOT", "INFINICCL_SECRET", "of 4"] {
            assert!(error.message().contains(name), "{env}: {error}");
        }
    }
}

#[test]
fn a_root_without_a_secret_needs_an_explicit_choice() {
    let env = "RANK=1 WORLD_SIZE=4";
    let root = ("job.root", "10.0.0.1:99");
    let error = wish_of(env, &[root]).unwrap_err();
    assert!(
        error.message().contains("INFINICCL_SECRET_FILE") && error.message().contains("auth"),
        "{error}"
    );
    assert_eq!(wish_of(env, &[root, ("auth", "none")]).unwrap(), Way::Root);
}

#[test]
fn secrets_come_from_the_variable_or_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let of = |set: &[(&str, &str)]| {
        let mut config = Config::built_in();
        set.iter()
            .for_each(|(key, value)| config.set(key, value).unwrap());
        secret(&config)
    };
    let file = ("job.secret_file", path.to_str().unwrap());
    assert_eq!(of(&[]).unwrap(), None);
    assert_eq!(of(&[("job.secret", "abc")]).unwrap(), Some(b"abc".to_vec()));
    assert!(of(&[file]).unwrap_err().message().contains("does not exist"));
    std::fs::write(&path, " top \n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = of(&[file]).unwrap_err();
    assert!(
        error.message().contains("0600") && !error.message().contains("top"),
        "{error}"
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(of(&[file]).unwrap(), Some(b"top".to_vec()));
    assert!(
        of(&[file, ("job.secret", "abc")])
            .unwrap_err()
            .message()
            .contains("both set")
    );
    std::fs::write(&path, "\n").unwrap();
    assert!(of(&[file]).unwrap_err().message().contains("no secret"));
}

#[test]
fn root_ids_depend_on_secret_and_attempt_and_not_on_the_address() {
    let (a, b): (SocketAddr, SocketAddr) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
    let none = |_: &str| None;
    let key = |env: Env<'_>, secret: Option<&[u8]>, at: SocketAddr| {
        *root_id(env, secret, &[at]).handshake_key().bytes()
    };
    assert_eq!(key(&none, Some(b"s"), a), key(&none, Some(b"s"), b));
    assert_ne!(key(&none, Some(b"s"), a), key(&none, Some(b"t"), a));
    assert_ne!(key(&none, None, a), key(&none, Some(b"s"), a));
    let second = |name: &str| (name == "TORCHELASTIC_RESTART_COUNT").then(|| "1".to_owned());
    assert_ne!(key(&none, Some(b"s"), a), key(&second, Some(b"s"), a));
}

#[test]
fn root_addresses_resolve() {
    let soon = Instant::now() + Duration::from_secs(5);
    assert_eq!(
        resolve("127.0.0.1:99", soon).unwrap(),
        ["127.0.0.1:99".parse().unwrap()]
    );
    assert_eq!(resolve("[::1]:99", soon).unwrap(), ["[::1]:99".parse().unwrap()]);
    assert!(
        resolve("localhost:99", soon)
            .unwrap()
            .contains(&"127.0.0.1:99".parse().unwrap())
    );
    assert!(resolve("localhost", soon).is_err());
    let error = resolve("no-such-host.invalid:99", Instant::now()).unwrap_err();
    assert!(error.message().contains("no-such-host.invalid"), "{error}");
}
