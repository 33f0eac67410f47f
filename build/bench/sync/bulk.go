package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helixbench/figures"
	"helixbench/procfs"
)

const (
	bulkSize  = 400 // bytes per text
	pouchDocs = 10_000
	rounds    = 3
)

// push measures sending the changes that a device made while offline: packaging, sending, committing
// and acknowledging them.
func (b *bench) push() {
	var ours, plain, limit, device, server []float64
	for range rounds {
		for _, encrypt := range []bool{true, false} {
			dsn := b.hub()
			d := b.first(dsn, encrypt)
			d.fill(b.rows, bulkSize)
			var pushed int
			var rate float64
			x, y := b.processor(func() { rate = float64(b.rows) / took(func() { pushed = d.now("push").Pushed }) })
			if pushed < b.rows {
				check(fmt.Errorf("%d of %d rows were pushed", pushed, b.rows))
			}
			if encrypt {
				ours, device, server = append(ours, rate), append(device, x), append(server, y)
			} else {
				plain = append(plain, rate)
			}
			limit = append(limit, b.copyLimit(dsn, b.rows, bulkSize))
			d.close()
		}
	}
	pouch := b.pouch().push
	figures.Print("push, encrypted", median(ours), "rows/s", median(ours)/median(limit), "COPY limit")
	figures.Print("push, encrypted", median(ours), "rows/s", median(ours)/pouch, "PouchDB")
	figures.Print("push, plain", median(plain), "rows/s", median(plain)/median(limit), "COPY limit")
	figures.Print("push, plain", median(plain), "rows/s", median(plain)/pouch, "PouchDB")
	b.printProcessor("push, encrypted", device, server)
}

// processor returns the processor time that fn uses here and in PostgreSQL, in microseconds per row.
func (b *bench) processor(fn func()) (device, server float64) {
	used := func() (here, there float64) {
		return float64(procfs.CPU(os.Getpid()).Microseconds()), float64(procfs.CPU(procfs.Family(b.pg.PID())...).Microseconds())
	}
	d, p := used()
	fn()
	device, server = used()
	return (device - d) / float64(b.rows), (server - p) / float64(b.rows)
}

func (b *bench) printProcessor(name string, device, server []float64) {
	figures.Print(name+", processor time of the device", median(device), "µs per row", 0, "")
	figures.Print(name+", processor time of PostgreSQL", median(server), "µs per row", 0, "")
}

// firstCopy measures a new device copying all data.
func (b *bench) firstCopy() {
	for _, encrypt := range []bool{true, false} {
		name := "initial copy, plain"
		if encrypt {
			name = "initial copy, encrypted"
		}
		a := b.first(b.hub(), encrypt)
		a.fill(b.rows, bulkSize)
		a.now("push")
		var ours, limit, device, server []float64
		for range rounds {
			d := b.second(a)
			x, y := b.processor(func() { ours = append(ours, float64(b.rows)/took(func() { d.now("pull") })) })
			device, server = append(device, x), append(server, y)
			if n := d.count(`SELECT count(*) FROM memories`); n != b.rows {
				check(fmt.Errorf("%d of %d rows came", n, b.rows))
			}
			limit = append(limit, b.upsertLimit(d, "memories"))
			d.close()
		}
		figures.Print(name, median(ours), "rows/s", median(ours)/median(limit), "SQLite upsert limit")
		figures.Print(name, median(ours), "rows/s", median(ours)/b.pouch().pull, "PouchDB")
		b.printProcessor(name, device, server)
		a.close()
	}
}

// large measures copying all data of a person with 100,000 rows.
func (b *bench) large() {
	a := b.first(b.hub(), true)
	a.fill(100_000, bulkSize)
	a.now("push")
	d := b.second(a)
	figures.Print("first sync of 100,000 rows", took(func() { d.now("pull") }), "s", 0, "")
	d.close()
	a.close()
}

// memory measures an initial copy in a separate process, whose resident memory is read before the
// copy and at its peak.
func (b *bench) memory() {
	sizes := []int{b.rows, 4 * b.rows}
	if b.full {
		sizes = []int{100_000, 1_000_000}
	}
	for _, n := range sizes {
		a := b.first(b.hub(), true)
		a.fill(n, bulkSize)
		a.now("push")
		path := filepath.Join(b.dir, "alone-"+uuid.NewString()+".db")
		link, err := a.Invite(a.ctx, inviteParams)
		check(err)
		cmd := exec.Command(os.Args[0]) //nolint:gosec // this program
		cmd.Env = append(os.Environ(), "HELIX_BENCH_COPY="+path, "HELIX_BENCH_LINK="+link.Link)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		check(err)
		mib, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		check(err)
		figures.Print(fmt.Sprintf("memory of an initial copy above idle, %d rows", n), mib, "MiB", 0, "")
		a.close()
	}
}

// copyAlone is the main function of the process that memory starts.
func copyAlone(path string) {
	d := openDevice(path)
	_, err := d.Enroll(d.ctx, enrollParams(os.Getenv("HELIX_BENCH_LINK")))
	check(err)
	d.identify()
	check(d.db.Read(d.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT 1`).Scan(new(int)) }))
	idle := resident("VmRSS:")
	check(os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets the peak
	d.now("pull")
	fmt.Printf("%.2f\n", resident("VmHWM:")-idle)
	d.close()
}

// resident returns the value of a line of /proc/self/status in MiB.
func resident(line string) float64 {
	f, err := os.Open("/proc/self/status")
	check(err)
	defer f.Close() //nolint:errcheck // opened for reading
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), line); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			check(err)
			return kib / 1024
		}
	}
	return 0
}
