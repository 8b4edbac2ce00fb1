package main

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// etcdWAL is etcd's write-ahead log, opened and repaired as etcd does it. A commit is one entry; the pairs are all entries applied.
// Its segments are small, so that it goes on to new ones.
type etcdWAL struct {
	log   *wal.WAL
	index uint64
	found map[string]string
}

func openEtcdWAL(folder string) (store, error) {
	wal.SegmentSizeBytes = 16 << 10
	place := filepath.Join(folder, "wal")
	s := &etcdWAL{found: map[string]string{}}
	if !wal.Exist(place) {
		log, err := wal.Create(zap.NewNop(), place, nil)
		s.log = log
		return s, err
	}
	var entries []*raftpb.Entry
	for repaired := false; ; repaired = true {
		log, err := wal.Open(zap.NewNop(), place, &walpb.Snapshot{})
		if err != nil {
			return nil, err
		}
		if _, _, entries, err = log.ReadAll(); err == nil {
			s.log = log
			break
		}
		log.Close()
		if repaired || !errors.Is(err, io.ErrUnexpectedEOF) || !wal.Repair(zap.NewNop(), place) {
			return nil, err
		}
	}
	for _, entry := range entries {
		if err := s.apply(entry); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *etcdWAL) apply(entry *raftpb.Entry) error {
	var changes map[string]*string
	if err := json.Unmarshal(entry.Data, &changes); err != nil {
		return err
	}
	for key, value := range changes {
		if value == nil {
			delete(s.found, key)
		} else {
			s.found[key] = *value
		}
	}
	s.index = entry.GetIndex()
	return nil
}

func (s *etcdWAL) commit(changes []change) error {
	pairs := map[string]*string{}
	for _, change := range changes {
		if pairs[change.key] = &change.value; change.removed {
			pairs[change.key] = nil
		}
	}
	data, err := json.Marshal(pairs)
	if err != nil {
		return err
	}
	index, term := s.index+1, uint64(1)
	entry := &raftpb.Entry{Index: &index, Term: &term, Data: data}
	state := &raftpb.HardState{Term: &term, Commit: &s.index}
	if err := s.log.Save(state, []*raftpb.Entry{entry}); err != nil {
		return err
	}
	return s.apply(entry)
}

func (s *etcdWAL) pairs() (map[string]string, error) { return s.found, nil }

func (s *etcdWAL) close() error { return s.log.Close() }
