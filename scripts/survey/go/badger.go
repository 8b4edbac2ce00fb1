package main

import (
	badger "github.com/dgraph-io/badger/v4"
)

// badgerStore has SyncWrites, which is off by default.
type badgerStore struct{ db *badger.DB }

func openBadger(folder string) (store, error) {
	// small files, so that an outcome is made quickly
	options := badger.DefaultOptions(folder).WithSyncWrites(true).WithLogger(nil).
		WithMemTableSize(1 << 20).WithValueLogFileSize(2 << 20).WithValueThreshold(4 << 10)
	db, err := badger.Open(options)
	if err != nil {
		return nil, err
	}
	return badgerStore{db}, nil
}

func (s badgerStore) commit(changes []change) error {
	return s.db.Update(func(txn *badger.Txn) error {
		for _, change := range changes {
			var err error
			if change.removed {
				err = txn.Delete([]byte(change.key))
			} else {
				err = txn.Set([]byte(change.key), []byte(change.value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerStore) pairs() (map[string]string, error) {
	found := map[string]string{}
	err := s.db.View(func(txn *badger.Txn) error {
		pairs := txn.NewIterator(badger.DefaultIteratorOptions)
		defer pairs.Close()
		for pairs.Rewind(); pairs.Valid(); pairs.Next() {
			value, err := pairs.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			found[string(pairs.Item().Key())] = string(value)
		}
		return nil
	})
	return found, err
}

func (s badgerStore) close() error { return s.db.Close() }
