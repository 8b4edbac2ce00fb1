//! The host's side of an authentication.

use std::io;

use zerocopy::{FromBytes, IntoBytes};

use super::{Client, Completed, Names, broken, fabrics};
use crate::authentication::Secret;
use crate::authentication::group::Group;
use crate::authentication::hash::Hash;
use crate::authentication::proof::{Parties, Question};
use crate::wire::authentication::{
    Challenge, Failure, Head, Negotiate, Reply, Success1, Success2, Transport, id,
};
use crate::wire::opcode;

/// Maximum size of a message from the controller.
const MESSAGE_BYTES: u32 = 4096;

/// What a host knows, and what it offers.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The host's secret.
    pub secret: Secret,
    /// The subsystem's secret, if the controller must authenticate itself too.
    pub controller_secret: Option<Secret>,
    /// Hashes, the preferred one first.
    pub hashes: Vec<Hash>,
    /// Groups.
    pub groups: Vec<Group>,
}

/// How an authentication ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authenticated {
    /// Well.
    Yes,
    /// The controller refused, with this reason.
    Refused(u8),
    /// The controller failed to authenticate itself.
    ControllerUnknown,
}

/// An answer to a challenge.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The message to send.
    pub message: Vec<u8>,
    /// The challenge to the controller, if any.
    pub asked: Option<Question>,
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

impl Names {
    fn parties(&self) -> Parties {
        Parties { host: self.host.clone(), subsystem: self.subsystem.clone() }
    }
}

impl Credentials {
    /// The message that begins an authentication.
    pub fn offer(&self, transaction: u16) -> Vec<u8> {
        let hashes: Vec<u8> = self.hashes.iter().map(|hash| hash.id()).collect();
        let groups: Vec<u8> = self.groups.iter().map(|group| group.id()).collect();
        Negotiate::new(transaction, &hashes, &groups).as_bytes().to_vec()
    }

    /// Answers a challenge.
    pub fn answer(&self, challenge: &[u8], names: &Names) -> io::Result<Answered> {
        let (header, rest) =
            Challenge::read_from_prefix(challenge).map_err(|_| broken("a short challenge"))?;
        let hash = Hash::of(header.hash).ok_or_else(|| broken("an unknown hash"))?;
        let group = Group::of(header.group).ok_or_else(|| broken("an unknown group"))?;
        let (hash_bytes, share_bytes) = (hash.bytes(), usize::from(header.share_bytes.get()));
        if rest.len() < hash_bytes + share_bytes {
            return Err(broken("a challenge that is cut off"));
        }
        let share = group.share(&random()?);
        let key = match &share {
            None => None,
            Some(share) => {
                let other = &rest[hash_bytes..hash_bytes + share_bytes];
                Some(share.agree(other).ok_or_else(|| broken("a share that is none"))?)
            }
        };
        let transaction = header.head.transaction.get();
        let question = |challenge: &[u8], sequence| Question {
            hash,
            transaction,
            sequence,
            challenge: Question::bind(hash, challenge, key.as_deref()),
        };
        let parties = names.parties();
        let proof = question(&rest[..hash_bytes], header.sequence.get())
            .host_proof(&self.secret.key(&names.host), &parties);
        let ours = &random::<64>()?[..hash_bytes];
        let sequence = if self.controller_secret.is_some() { 0x5eed } else { 0 };
        let public = share.as_ref().map_or(&[][..], |share| &share.public);
        let has_challenge = self.controller_secret.is_some();
        let header = Reply::new(transaction, has_challenge, sequence, (hash_bytes, public.len()));
        Ok(Answered {
            message: [header.as_bytes(), &proof, ours, public].concat(),
            asked: has_challenge.then(|| question(ours, sequence)),
        })
    }
}

impl Client {
    /// Authentication Send.
    pub fn send_message(&mut self, message: &[u8]) -> io::Result<Completed> {
        let fields = Transport::new(message.len() as u32);
        self.write_command(fabrics(opcode::fabrics::AUTHENTICATION_SEND, fields.as_bytes()), message)
    }

    /// Authentication Receive.
    pub fn receive_message(&mut self) -> io::Result<Completed> {
        let fields = Transport::new(MESSAGE_BYTES);
        let command = fabrics(opcode::fabrics::AUTHENTICATION_RECEIVE, fields.as_bytes());
        self.read_command(command, MESSAGE_BYTES)
    }

    fn exchange(&mut self, message: &[u8]) -> io::Result<Vec<u8>> {
        for completed in [self.send_message(message)?, self.receive_message()?] {
            if completed.code != 0 {
                return Err(broken(format!("an authentication command ended with {:#x}", completed.code)));
            }
            if !completed.data.is_empty() {
                return Ok(completed.data);
            }
        }
        Err(broken("no message"))
    }

    /// Proves the host's identity, and asks the controller to authenticate itself if its secret is known.
    pub fn authenticate(&mut self, names: &Names, credentials: &Credentials) -> io::Result<Authenticated> {
        let transaction = 0x1234;
        let challenge = self.exchange(&credentials.offer(transaction))?;
        if let Some(reason) = refusal(&challenge) {
            return Ok(Authenticated::Refused(reason));
        }
        let answered = credentials.answer(&challenge, names)?;
        let message = self.exchange(&answered.message)?;
        if let Some(reason) = refusal(&message) {
            return Ok(Authenticated::Refused(reason));
        }
        let (success, rest) = Success1::read_from_prefix(&message).map_err(|_| broken("a short message"))?;
        let (Some(asked), Some(secret)) = (answered.asked, &credentials.controller_secret) else {
            return Ok(Authenticated::Yes);
        };
        let proof = rest.get(..asked.hash.bytes()).unwrap_or_default();
        let is_proof = asked.is_proof_of_controller(&secret.key(&names.subsystem), &names.parties(), proof);
        if success.has_proof == 0 || !is_proof {
            self.send_message(Failure::new(id::FAILURE2, transaction, 1).as_bytes())?;
            return Ok(Authenticated::ControllerUnknown);
        }
        self.send_message(Success2::new(transaction).as_bytes())?;
        Ok(Authenticated::Yes)
    }
}

/// The reason in a message that says that the authentication failed.
pub fn refusal(message: &[u8]) -> Option<u8> {
    let (head, _) = Head::read_from_prefix(message).ok()?;
    let (failure, _) = Failure::read_from_prefix(message).ok()?;
    (head.id == id::FAILURE1).then_some(failure.reason)
}
