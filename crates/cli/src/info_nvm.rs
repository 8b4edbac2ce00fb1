//! What `tantalum info` says about non-volatile memory.

use serde::Serialize;
use tantalum::{Device, NvmParts};
use tantalum_papers::pebblessd_memory::{THESIS_PERCENT, at_thesis_capacity, in_use, percent};
use tantalum_report::table::{bytes, grouped};

/// How the memory is used.
#[derive(Serialize)]
pub struct NvmInfo {
    bytes: u64,
    map_bytes: u64,
    remap_bytes: u64,
    list_bytes: u64,
    /// In use: by the map alone, with `remap`, with `fs_write`, with both.
    percent: [f64; 4],
    /// The percentages at 512 GiB, the capacity of the thesis's computation.
    percent_at_512_gib: [f64; 4],
    percent_in_thesis: [f64; 3],
    files_with_lists: usize,
    files_limit: u32,
    list_entries: usize,
    #[serde(skip)]
    used: [u64; 4],
}

impl NvmInfo {
    /// For a drive that has such memory.
    pub fn of(device: &Device) -> Option<NvmInfo> {
        let profile = device.profile();
        let parts: NvmParts = profile.nvm_parts().ok()??;
        let at_512_gib = at_thesis_capacity(profile).nvm_parts().ok()??;
        let (files_limit, files_with_lists, list_entries) = device.file_list_counts();
        Some(NvmInfo {
            bytes: parts.bytes,
            map_bytes: parts.map,
            remap_bytes: parts.log,
            list_bytes: parts.lists,
            percent: percent(&parts),
            percent_at_512_gib: percent(&at_512_gib),
            percent_in_thesis: THESIS_PERCENT,
            files_with_lists,
            files_limit,
            list_entries,
            used: in_use(&parts),
        })
    }

    /// As text: the existing lists, and the table of section 4.4.5 of the thesis.
    pub fn text(&self) -> String {
        let lists = format!(
            "{}; {} of {} files have lists, with {} entries",
            bytes(self.bytes),
            grouped(self.files_with_lists as u64),
            grouped(self.files_limit.into()),
            grouped(self.list_entries as u64)
        );
        let mut text = format!("{:<25}{lists}\n", "non-volatile memory");
        text.push_str(&format!(
            "{:<25}{:>12}{:>10}{:>12}{:>10}\n",
            "  in use at most", "bytes", "here", "at 512 GiB", "thesis"
        ));
        for (row, name) in
            ["  map alone", "  with remap", "  with fs_write", "  with both"].into_iter().enumerate()
        {
            let (here, large, bytes) =
                (self.percent[row], self.percent_at_512_gib[row], bytes(self.used[row]));
            let thesis =
                self.percent_in_thesis.get(row).map_or("-".to_owned(), |percent| format!("{percent:.0} %"));
            text.push_str(&format!("{name:<25}{bytes:>12}{here:>8.1} %{large:>10.1} %{thesis:>10}\n"));
        }
        text
    }
}
