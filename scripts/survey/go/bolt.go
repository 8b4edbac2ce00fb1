package main

import (
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// boltStore has the default options, with which each commit is synced.
type boltStore struct{ db *bolt.DB }

var bucket = []byte("ledger")

func openBolt(folder string) (store, error) {
	db, err := bolt.Open(filepath.Join(folder, "ledger.bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	return boltStore{db}, nil
}

func (s boltStore) commit(changes []change) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		pairs, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if change.removed {
				err = pairs.Delete([]byte(change.key))
			} else {
				err = pairs.Put([]byte(change.key), []byte(change.value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s boltStore) pairs() (map[string]string, error) {
	found := map[string]string{}
	err := s.db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		pairs := tx.Bucket(bucket)
		if pairs == nil {
			return nil
		}
		return pairs.ForEach(func(key, value []byte) error {
			found[string(key)] = string(value)
			return nil
		})
	})
	return found, err
}

func (s boltStore) close() error { return s.db.Close() }
