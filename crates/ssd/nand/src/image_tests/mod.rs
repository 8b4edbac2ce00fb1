//! Media in images: in files, with memory beside the flash.

mod files;
mod nvm;
mod space;
mod summary;
