// Runs the ledger of ../ledger.py on stores written in Go.
//
// `gostore STORE work FOLDER` applies the steps on its standard input; `gostore STORE dump FOLDER` prints all pairs, after it
// has made sure that another commit changes nothing else.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"
)

// change is a key, and its new value unless it is removed.
type change struct {
	key, value string
	removed    bool
}

// store is open. What commit has returned for is durable.
type store interface {
	commit(changes []change) error
	pairs() (map[string]string, error)
	close() error
}

// compacter is a store that can be asked to tidy up.
type compacter interface{ compact() error }

func open(name, folder string) (store, error) {
	switch name {
	case "bbolt":
		return openBolt(folder)
	case "pebble":
		return openPebble(folder)
	case "badger":
		return openBadger(folder)
	case "etcd-wal":
		return openEtcdWAL(folder)
	}
	return nil, fmt.Errorf("unknown store %s", name)
}

func work(name, folder string) error {
	opened, err := open(name, folder)
	if err != nil {
		return err
	}
	var changes []change
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		switch words[0] {
		case "put":
			changes = append(changes, change{key: words[1], value: words[2]})
		case "delete":
			changes = append(changes, change{key: words[1], removed: true})
		case "commit":
			if err := opened.commit(changes); err != nil {
				return err
			}
			changes = nil
			if err := acknowledge(words[1]); err != nil {
				return err
			}
		case "compact":
			if able, ok := opened.(compacter); ok {
				if err := able.compact(); err != nil {
					return err
				}
			}
		case "reopen":
			if err := opened.close(); err != nil {
				return err
			}
			if opened, err = open(name, folder); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return opened.close()
}

// acknowledge waits until it is heard: what is heard late tests fewer cuts.
func acknowledge(step string) error {
	file, err := os.OpenFile(os.Getenv("TANTALUM_ACK"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, step)
	time.Sleep(20 * time.Millisecond)
	return err
}

func dump(name, folder string) error {
	opened, err := open(name, folder)
	if err != nil {
		return err
	}
	pairs, err := opened.pairs()
	if err != nil {
		return err
	}
	pairs = maps.Clone(pairs)
	if err := opened.commit([]change{{key: "after", value: "the cut"}}); err != nil {
		return err
	}
	if err := opened.close(); err != nil {
		return err
	}
	if opened, err = open(name, folder); err != nil {
		return err
	}
	defer opened.close()
	later, err := opened.pairs()
	if err != nil {
		return err
	}
	expected := maps.Clone(pairs)
	expected["after"] = "the cut"
	if !maps.Equal(later, expected) {
		return fmt.Errorf("a commit after the power cut changed more than it wrote")
	}
	for key, value := range pairs {
		fmt.Printf("%s\t%s\n", key, value)
	}
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gostore STORE work|dump FOLDER")
		os.Exit(2)
	}
	run := map[string]func(string, string) error{"work": work, "dump": dump}[os.Args[2]]
	if err := run(os.Args[1], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
