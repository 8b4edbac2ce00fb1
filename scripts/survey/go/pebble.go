package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleStore commits batches with pebble.Sync. Its small memtables are flushed to tables when the store is compacted or reopened.
type pebbleStore struct{ db *pebble.DB }

func openPebble(folder string) (store, error) {
	db, err := pebble.Open(folder, &pebble.Options{MemTableSize: 256 << 10, Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return pebbleStore{db}, nil
}

func (s pebbleStore) commit(changes []change) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for _, change := range changes {
		var err error
		if change.removed {
			err = batch.Delete([]byte(change.key), nil)
		} else {
			err = batch.Set([]byte(change.key), []byte(change.value), nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (s pebbleStore) pairs() (map[string]string, error) {
	found := map[string]string{}
	all, err := s.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	for all.First(); all.Valid(); all.Next() {
		value, err := all.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		found[string(all.Key())] = string(value)
	}
	return found, errors.Join(all.Error(), all.Close())
}

func (s pebbleStore) compact() error {
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), []byte("a"), []byte("z"), false)
}

func (s pebbleStore) close() error { return s.db.Close() }

// quiet prints nothing but what ends the process.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}
