//! Finding the file, reading it, and letting the environment win over it.

use std::ffi::OsString;
use std::io::{ErrorKind as IoKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::diagnostic::{Diagnostic, Diagnostics, Place, Severity};
use super::origin::{Origin, Source};
use super::raw::{Item, Problem};
use super::read::about;
use super::report::position_in_bytes;
use super::schema::{Config, SCALARS};
use super::suggest::did_you_mean;
use super::variables::{INTERNAL_PREFIXES, PREFIX, variables};
use crate::error::{Error, ErrorKind, Result};

/// Where the file is looked for in the working folder, in this order.
pub const LOCAL_FILES: &[&str] = &["./infiniccl.toml", "./conf/infiniccl.toml"];

/// Where the file is looked for last.
pub const SYSTEM_FILE: &str = "/etc/infiniccl/infiniccl.toml";

/// A larger file is no configuration, and reading on would not end with a device.
const LARGEST_FILE: u64 = 1 << 20;

/// Everything outside the file that loading depends on.
#[derive(Debug, Clone, Default)]
pub struct LoadEnv {
    /// The file that the program was told to take.
    pub explicit: Option<PathBuf>,
    /// The folder that relative paths of files start at.
    pub working_folder: PathBuf,
    /// The file to take when there is none in the working folder.
    pub system_file: PathBuf,
    /// The folder of the executable.
    pub executable_folder: Option<PathBuf>,
    /// The environment variables; those without our prefix are passed over.
    pub variables: Vec<(OsString, OsString)>,
}

impl LoadEnv {
    /// What this process sees.
    pub fn of_process(explicit: Option<&Path>) -> Self {
        LoadEnv {
            explicit: explicit.map(Path::to_path_buf),
            // Without a working folder there is nothing relative to find; absolute paths still work.
            working_folder: std::env::current_dir().unwrap_or_default(),
            system_file: PathBuf::from(SYSTEM_FILE),
            executable_folder: std::env::current_exe()
                .ok()
                .and_then(|file| file.parent().map(Path::to_path_buf)),
            variables: std::env::vars_os().collect(),
        }
    }

    fn variable(&self, name: &str) -> Option<&OsString> {
        let found = self.variables.iter().find(|(own, _)| own == name);
        // An empty variable counts as none, as `NAME= program` is how people unset one.
        found.map(|(_, value)| value).filter(|value| !value.is_empty())
    }
}

impl Config {
    /// Loads the configuration of this process: `explicit` (from `--config`), else the file that
    /// `INFINICCL_CONFIG` names, else `./infiniccl.toml`, `./conf/infiniccl.toml`,
    /// `/etc/infiniccl/infiniccl.toml`, else the defaults; then the variables.
    ///
    /// Fails (invalid usage) if a named file is missing, if a file cannot be read, or with everything that is
    /// wrong in the file and the variables; then the error's source is [`Diagnostics`]. Reads a file and so may
    /// block.
    pub fn load(explicit: Option<&Path>) -> Result<Config> {
        Config::load_from(&LoadEnv::of_process(explicit)).map_err(Error::from)
    }

    /// The same with everything given that loading depends on, apart from the files themselves.
    pub fn load_from(env: &LoadEnv) -> std::result::Result<Config, Diagnostics> {
        let mut config = Config::defaults();
        config.meta.working_folder.clone_from(&env.working_folder);
        config.meta.executable_folder.clone_from(&env.executable_folder);
        let mut found = match find(env) {
            Ok(None) => Vec::new(),
            Ok(Some(file)) => {
                let folder = env
                    .working_folder
                    .join(&file.path)
                    .parent()
                    .map(Path::to_path_buf);
                config.meta.folder = folder;
                config.meta.source = Source::File(file.path.clone());
                config.meta.warnings.extend(file.warning());
                match file.text() {
                    Ok(text) => config.read(text, &file.path),
                    Err(diagnostic) => vec![*diagnostic],
                }
            }
            Err(diagnostic) => vec![*diagnostic],
        };
        found.extend(config.apply_variables(env));
        if found.is_empty() {
            Ok(config)
        } else {
            Err(Diagnostics::new(found))
        }
    }

    /// The defaults alone, without file and variables.
    pub fn built_in() -> Config {
        Config::defaults()
    }

    /// Sets one key, such as `timeouts.collective`, from a text as a variable would hold it; its origin is
    /// then the API.
    ///
    /// Fails (invalid usage) with the nearest key for an unknown one, and with what is wrong with the value;
    /// the key then keeps its value. A plugin is pushed to [`Config::plugins`] instead, as
    /// [`PluginEntry::new`](super::PluginEntry::new) makes it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some(index) = SCALARS.iter().position(|scalar| scalar.key.path() == key) else {
            let paths: Vec<String> = SCALARS.iter().map(|scalar| scalar.key.path()).collect();
            let hint = did_you_mean(key, paths.iter().map(String::as_str), |path| format!("`{path}`"));
            let hint = hint.map(|hint| format!(": {hint}")).unwrap_or_default();
            return Err(Error::new(
                ErrorKind::InvalidUsage,
                format!("unknown key `{}`{hint}", key.escape_debug()),
            ));
        };
        let problem = match self.set_scalar(index, value, Origin::Api) {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        };
        let hint = problem
            .suggestion
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        Err(Error::new(
            ErrorKind::InvalidUsage,
            format!("{}{hint}", problem.message),
        ))
    }

    fn set_scalar(&mut self, index: usize, text: &str, origin: Origin) -> std::result::Result<(), Problem> {
        let scalar = &SCALARS[index];
        let item = Item::from_text(text, scalar.shape);
        (scalar.read)(self, &item, &scalar.key).map_err(|problem| about(&scalar.key.path(), problem))?;
        self.meta.set(index, origin);
        Ok(())
    }

    fn apply_variables(&mut self, env: &LoadEnv) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (index, scalar) in SCALARS.iter().enumerate() {
            let Some(name) = scalar.key.variable() else {
                continue;
            };
            let Some(value) = env.variable(name) else { continue };
            let problem = match value.to_str() {
                Some(text) => self.set_scalar(index, text, Origin::Variable(name)).err(),
                None => Some(Problem::new(format!("the value of {name} is not UTF-8 text"))),
            };
            if let Some(problem) = problem {
                let place = Place::Variable(name.to_owned());
                let mut diagnostic = Diagnostic::new(Severity::Error, place, problem.message);
                diagnostic.key = Some(scalar.key.path());
                diagnostic.suggestion = problem.suggestion;
                found.push(diagnostic);
            }
        }
        if self.job.secret.is_some() && self.job.secret_file.is_some() {
            let place = Place::Variable("INFINICCL_SECRET_FILE".to_owned());
            let message = "INFINICCL_SECRET and INFINICCL_SECRET_FILE are both set";
            let mut diagnostic = Diagnostic::new(Severity::Error, place, message);
            diagnostic.suggestion = Some("unset one of them".to_owned());
            found.push(diagnostic);
        }
        self.meta.warnings.extend(
            env.variables
                .iter()
                .filter_map(|(name, _)| unknown_variable(name)),
        );
        found
    }
}

/// The warning about a variable with our prefix that nothing reads.
fn unknown_variable(name: &OsString) -> Option<Diagnostic> {
    let name = name.to_string_lossy();
    let known = || variables().map(|variable| variable.name);
    if !name.starts_with(PREFIX)
        || INTERNAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || known().any(|known| known == name)
    {
        return None;
    }
    let place = Place::Variable(name.clone().into_owned());
    let message = format!("nothing reads the variable {}", name.escape_debug());
    let mut diagnostic = Diagnostic::new(Severity::Warning, place, message);
    diagnostic.suggestion = Some(
        did_you_mean(&name, known(), str::to_owned)
            .unwrap_or_else(|| format!("the variables are {}", known().collect::<Vec<_>>().join(", "))),
    );
    Some(diagnostic)
}

/// A file that was found and read.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
    others_may_write: bool,
}

impl File {
    fn text(&self) -> std::result::Result<&str, Box<Diagnostic>> {
        if self.bytes.starts_with(&[0xff, 0xfe]) || self.bytes.starts_with(&[0xfe, 0xff]) {
            let place = Place::File {
                path: self.path.as_path().into(),
                line: 1,
                column: 1,
            };
            let mut diagnostic = Diagnostic::new(Severity::Error, place, "the file is UTF-16 text");
            diagnostic.suggestion = Some("save it as UTF-8".to_owned());
            return Err(Box::new(diagnostic));
        }
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let (line, column) = position_in_bytes(&self.bytes, error.valid_up_to());
            let place = Place::File {
                path: self.path.as_path().into(),
                line,
                column,
            };
            let byte = self.bytes.get(error.valid_up_to()).copied().unwrap_or(0);
            let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}");
            let mut diagnostic = Diagnostic::new(Severity::Error, place, message);
            diagnostic.suggestion = Some("save it as UTF-8".to_owned());
            Box::new(diagnostic)
        })
    }

    /// Whoever may write the file chooses which plugins this process loads.
    fn warning(&self) -> Option<Diagnostic> {
        self.others_may_write.then(|| {
            let place = Place::WholeFile(self.path.as_path().into());
            let message = "every user of this machine may change the file, and with it what is loaded";
            let mut diagnostic = Diagnostic::new(Severity::Warning, place, message);
            diagnostic.suggestion = Some(format!("run chmod o-w {}", self.path.display()));
            diagnostic
        })
    }
}

/// The first file of the search order; only files that were not named may be missing.
fn find(env: &LoadEnv) -> std::result::Result<Option<File>, Box<Diagnostic>> {
    let named = match (&env.explicit, env.variable("INFINICCL_CONFIG")) {
        (Some(path), _) => Some((path.clone(), "the file given with --config")),
        (None, Some(path)) => Some((PathBuf::from(path), "the file given by INFINICCL_CONFIG")),
        (None, None) => None,
    };
    let failed = |path: &Path, what: &str, reason: String| {
        let place = Place::WholeFile(path.into());
        Box::new(Diagnostic::new(
            Severity::Error,
            place,
            format!("{what} cannot be read: {reason}"),
        ))
    };
    if let Some((path, what)) = named {
        let file = read_file(env, &path).map_err(|error| {
            let mut diagnostic = failed(&path, what, error.to_string());
            if error.kind() == IoKind::NotFound && path.is_relative() {
                let folder = env.working_folder.display();
                diagnostic.suggestion = Some(format!("relative paths start at {folder}"));
            }
            diagnostic
        })?;
        return Ok(Some(file));
    }
    for path in LOCAL_FILES
        .iter()
        .map(Path::new)
        .chain([env.system_file.as_path()])
    {
        match read_file(env, path) {
            Ok(file) => return Ok(Some(file)),
            Err(error) if matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => {}
            Err(error) => return Err(failed(path, "the file", error.to_string())),
        }
    }
    Ok(None)
}

fn read_file(env: &LoadEnv, path: &Path) -> std::io::Result<File> {
    let mut file = std::fs::File::open(env.working_folder.join(path))?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.by_ref().take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        let message = format!("it is larger than {} KiB", LARGEST_FILE >> 10);
        return Err(std::io::Error::new(IoKind::FileTooLarge, message));
    }
    let others_may_write = metadata.is_file() && metadata.permissions().mode() & 0o002 != 0;
    Ok(File {
        path: path.to_path_buf(),
        bytes,
        others_may_write,
    })
}
