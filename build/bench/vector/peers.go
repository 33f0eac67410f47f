package main

import (
	"bufio"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"helixbench/figures"

	_ "modernc.org/sqlite"
	_ "modernc.org/sqlite/vec" // the table vec0
)

// faiss is faiss_peer.py in a separate process.
type faiss struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startFaiss starts the peer. If faiss is missing, which is a Debian package, it reports that
// instead of failing.
func startFaiss(data, queries string, dims int) (*faiss, error) {
	cmd := exec.Command("/usr/bin/python3", "vector/faiss_peer.py", data, queries, fmt.Sprint(dims))
	if _, err := os.Stat("vector/faiss_peer.py"); err != nil {
		cmd.Args[1] = "faiss_peer.py"
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	figures.Check(err)
	out, err := cmd.StdoutPipe()
	figures.Check(err)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := &faiss{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	f.out.Buffer(nil, 1<<24)
	if !f.out.Scan() {
		_ = cmd.Wait()
		return nil, fmt.Errorf("faiss does not start (Debian: python3-faiss, python3-numpy): %s", strings.TrimSpace(errs.String()))
	}
	return f, nil
}

// run searches for the first n queries; cpu is in milliseconds per query.
func (f *faiss) run(name string, n int) (cpu float64, ids [][]uint32) {
	fmt.Fprintln(f.in, name, n)
	if !f.out.Scan() {
		figures.Check(fmt.Errorf("faiss ended early"))
	}
	var r struct {
		CPU float64
		IDs [][]uint32
	}
	figures.Check(json.Unmarshal(f.out.Bytes(), &r))
	return r.CPU, r.IDs
}

func (f *faiss) close() {
	f.in.Close()
	_ = f.cmd.Wait()
}

// liteVec is sqlite-vec, compiled to Go like the SQLite that the memory domain uses.
type liteVec struct {
	db *sql.DB
	q  *sql.Stmt
}

func openLiteVec(path string, n, dims int, next func(i int, dst []float32)) *liteVec {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=cache_size(-65536)&_pragma=mmap_size(0)")
	figures.Check(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(fmt.Sprintf("create virtual table v using vec0(e float[%d] distance_metric=cosine)", dims))
	figures.Check(err)
	v, b := make([]float32, dims), make([]byte, 0, dims*4)
	for at := 0; at < n; {
		tx, err := db.Begin()
		figures.Check(err)
		ins, err := tx.Prepare("insert into v(rowid, e) values (?, ?)")
		figures.Check(err)
		for end := min(n, at+10000); at < end; at++ {
			next(at, v)
			b, err = binary.Append(b[:0], binary.LittleEndian, v)
			figures.Check(err)
			_, err = ins.Exec(at, b)
			figures.Check(err)
		}
		figures.Check(tx.Commit())
	}
	q, err := db.Prepare("select rowid from v where e match ? and k = 10 order by distance")
	figures.Check(err)
	return &liteVec{db: db, q: q}
}

func (l *liteVec) search(q []float32) []uint32 {
	b, err := binary.Append(nil, binary.LittleEndian, q)
	figures.Check(err)
	rows, err := l.q.Query(b)
	figures.Check(err)
	defer rows.Close()
	var ids []uint32
	for rows.Next() {
		var id uint32
		figures.Check(rows.Scan(&id))
		ids = append(ids, id)
	}
	figures.Check(rows.Err())
	return ids
}

func (l *liteVec) close() { l.db.Close() }
