//! Requests, each of which fails: nothing is downloaded.

use std::io::{Error, ErrorKind};

pub struct Request;

pub fn builder() -> Request {
    Request
}

impl Request {
    pub fn try_proxy_from_env(self, _use_it: bool) -> Self {
        self
    }

    pub fn user_agent(self, _name: &str) -> Self {
        self
    }

    pub fn build(self) -> Self {
        self
    }

    pub fn get(self, _url: &str) -> Self {
        self
    }

    pub fn set(self, _name: &str, _value: &str) -> Self {
        self
    }

    pub fn call(self) -> Result<Response, Error> {
        Err(ErrorKind::Unsupported.into())
    }
}

pub enum Response {}

impl Response {
    pub fn status(&self) -> u16 {
        match *self {}
    }

    pub fn into_json<T>(self) -> Result<T, Error> {
        match self {}
    }
}
