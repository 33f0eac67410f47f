package storage

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

// anonymous returns the resident memory of the process that is not of files, in KiB.
func anonymous(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	n, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWriterCacheIsFreedWhenNothingIsWritten(t *testing.T) { // not parallel: it measures memory
	testkit.SkipRaced(t, "one goroutine")
	h := newHome(t)
	must(t, h.db.Write(h.ctx, func(tx *Tx) error {
		_, err := tx.Exec(`CREATE TABLE filled AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i, hex(randomblob(500)) AS text FROM n`)
		return err
	}))
	full := anonymous(t)
	later := time.Now().Add(time.Hour)
	next := schedule{prune: later, backup: later, check: later}
	h.s.watch(h.ctx, &next)
	if freed := full - anonymous(t); freed < 16<<10 {
		t.Errorf("%d KiB of %d were freed", freed, full)
	}
}
