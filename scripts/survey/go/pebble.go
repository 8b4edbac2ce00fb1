package main

import (
	"github.com/cockroachdb/pebble"
)

// pebbleStore commits batches with pebble.Sync.
type pebbleStore struct{ db *pebble.DB }

type quiet struct{}

func (quiet) Infof(string, ...interface{})  {}
func (quiet) Errorf(string, ...interface{}) {}
func (quiet) Fatalf(text string, values ...interface{}) {
	pebble.DefaultLogger.Fatalf(text, values...)
}

func openPebble(folder string) (store, error) {
	db, err := pebble.Open(folder, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return pebbleStore{db}, nil
}

func (s pebbleStore) commit(changes []change) error {
	batch := s.db.NewBatch()
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
	pairs, err := s.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	defer pairs.Close()
	found := map[string]string{}
	for pairs.First(); pairs.Valid(); pairs.Next() {
		found[string(pairs.Key())] = string(pairs.Value())
	}
	return found, pairs.Error()
}

func (s pebbleStore) close() error { return s.db.Close() }
