package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"slices"
	"strings"
	"unicode"

	"helixbench/figures"

	_ "modernc.org/sqlite"
	_ "modernc.org/sqlite/vec" // the table vec0
)

// peer is FTS5 and sqlite-vec in one file, with reciprocal rank fusion over the best 200 of each,
// as one would write it with only these two.
type peer struct {
	db    *sql.DB
	model *corpus
}

func openPeer(c *corpus, n int, path string) *peer {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=cache_size(-65536)&_pragma=mmap_size(1073741824)")
	figures.Check(err)
	db.SetMaxOpenConns(*clients)
	for _, q := range []string{
		`CREATE VIRTUAL TABLE v USING vec0 (e float[512] distance_metric=cosine)`,
		`CREATE VIRTUAL TABLE f USING fts5 (content, tokenize = "porter unicode61 remove_diacritics 2")`,
	} {
		_, err := db.Exec(q)
		figures.Check(err)
	}
	tx, err := db.Begin()
	figures.Check(err)
	c.texts(n, 1, func(i int, text string) {
		b, err := binary.Append(nil, binary.LittleEndian, c.vector(text))
		figures.Check(err)
		_, err = tx.Exec(`INSERT INTO v (rowid, e) VALUES (?, ?)`, i+1, b)
		figures.Check(err)
		_, err = tx.Exec(`INSERT INTO f (rowid, content) VALUES (?, ?)`, i+1, text)
		figures.Check(err)
	})
	figures.Check(tx.Commit())
	return &peer{db, c}
}

func (p *peer) close() { figures.Check(p.db.Close()) }

func (p *peer) run(c *corpus, round int) []float64 {
	return concurrently(func(_, i int) { p.ask(c.question(round*(*queries) + i)) })
}

var little = strings.Fields("a about an and any are as at be by did do does for from had has have how in is it its of on or that the their this to was were what when where which who why will with would")

// ask returns the texts of the best ten.
func (p *peer) ask(question string) []string {
	vecs, err := p.model.Embed(context.Background(), []string{question})
	figures.Check(err)
	score := map[int64]float64{}
	b, err := binary.Append(nil, binary.LittleEndian, vecs[0])
	figures.Check(err)
	p.list(score, 0.4, `SELECT rowid FROM v WHERE e MATCH ? AND k = 200 ORDER BY distance`, b)
	var terms []string
	for _, w := range strings.FieldsFunc(strings.ToLower(question), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !slices.Contains(little, w) {
			terms = append(terms, `"`+w+`"`)
		}
	}
	p.list(score, 1, `SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank LIMIT 200`, strings.Join(terms, " OR "))
	ids := make([]int64, 0, len(score))
	for id := range score {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int64) int {
		if score[a] != score[b] {
			if score[a] > score[b] {
				return -1
			}
			return 1
		}
		return int(a - b)
	})
	var out []string
	for _, id := range ids[:min(10, len(ids))] {
		var text string
		figures.Check(p.db.QueryRow(`SELECT content FROM f WHERE rowid = ?`, id).Scan(&text))
		out = append(out, text)
	}
	return out
}

func (p *peer) list(score map[int64]float64, weight float64, query string, arg any) {
	rows, err := p.db.Query(query, arg)
	figures.Check(err)
	defer rows.Close()
	for rank := 1; rows.Next(); rank++ {
		var id int64
		figures.Check(rows.Scan(&id))
		score[id] += weight / float64(60+rank)
	}
	figures.Check(rows.Err())
}
