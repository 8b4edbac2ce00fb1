package main

import (
	"github.com/dgraph-io/badger/v4"
)

// badgerStore has SyncWrites. Some values are large enough for the value log; files are small, because each check gets a copy.
// A store with an empty file fails to open once, and then has a size for that file: so it is opened twice if need be.
type badgerStore struct{ db *badger.DB }

func openBadger(folder string) (store, error) {
	options := badger.DefaultOptions(folder).WithSyncWrites(true).WithLogger(nil)
	options = options.WithMemTableSize(256 << 10).WithValueLogFileSize(1 << 20).WithValueThreshold(4 << 10)
	options = options.WithBlockCacheSize(1 << 20).WithIndexCacheSize(1 << 20).WithNumCompactors(2)
	db, err := badger.Open(options)
	if err != nil {
		db, err = badger.Open(options)
	}
	if err != nil {
		return nil, err
	}
	return badgerStore{db}, nil
}

func (s badgerStore) commit(changes []change) error {
	return s.db.Update(func(tx *badger.Txn) error {
		for _, change := range changes {
			var err error
			if change.removed {
				err = tx.Delete([]byte(change.key))
			} else {
				err = tx.Set([]byte(change.key), []byte(change.value))
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
	err := s.db.View(func(tx *badger.Txn) error {
		all := tx.NewIterator(badger.DefaultIteratorOptions)
		defer all.Close()
		for all.Rewind(); all.Valid(); all.Next() {
			value, err := all.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			found[string(all.Item().Key())] = string(value)
		}
		return nil
	})
	return found, err
}

func (s badgerStore) compact() error { return s.db.Flatten(1) }

func (s badgerStore) close() error { return s.db.Close() }
