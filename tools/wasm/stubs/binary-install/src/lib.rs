//! Where a program is; and nothing that downloads one.

use std::env::consts::EXE_EXTENSION;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

pub struct Cache(PathBuf);

impl Cache {
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::at(Path::new(name)))
    }

    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub fn join(&self, path: &Path) -> PathBuf {
        self.0.join(path)
    }

    pub fn download(&self, _install: bool, _name: &str, _binaries: &[&str], _url: &str) -> Result<Option<Download>> {
        Ok(None)
    }
}

#[derive(Clone, Debug)]
pub struct Download(PathBuf);

impl Download {
    pub fn at(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name).with_extension(EXE_EXTENSION);
        ensure!(path.is_file(), "expected a program at {}", path.display());
        Ok(path)
    }
}
