package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keepBackups chooses which automatic backups and snapshots stay: the newest of each of the
// last 7 days and 4 weeks that have one, 3 from before migrations, none older than age, and
// in all no more than maxBytes; the newest always stays. all is newest first.
func keepBackups(all []BackupInfo, now time.Time, age time.Duration, maxBytes int64) (drop []BackupInfo) {
	days, weeks := map[string]bool{}, map[string]bool{}
	var snapshots int
	var total int64
	newest := map[string]bool{}
	for _, b := range all {
		keep := false
		switch b.Kind {
		case "automatic":
			y, w := b.CreatedAt.ISOWeek()
			day, week := b.CreatedAt.Format(time.DateOnly), fmt.Sprint(y, "-", w)
			if !days[day] && len(days) < 7 {
				days[day], keep = true, true
			}
			if !weeks[week] && len(weeks) < 4 {
				weeks[week], keep = true, true
			}
		case "pre-migration", "rolled-back":
			snapshots++
			keep = snapshots <= 3
		default:
			continue // made by hand: never ours to delete
		}
		first := !newest[b.Kind]
		newest[b.Kind] = true
		if !first && (now.Sub(b.CreatedAt) > age || total+b.SizeBytes > maxBytes) {
			keep = false
		}
		if keep || first {
			total += b.SizeBytes
			continue
		}
		drop = append(drop, b)
	}
	return drop
}

func (p *pruner) backups(context.Context) error {
	all, err := p.s.listBackups()
	if err != nil {
		return err
	}
	for _, b := range keepBackups(all, p.now, p.pol.BackupAge, p.pol.BackupMax) {
		p.count("backups", 1, b.SizeBytes)
		if p.dry {
			continue
		}
		if err := os.Remove(b.Path); err != nil {
			return err
		}
		_ = os.Remove(b.Path + ".sha256")
	}
	return nil
}

// replacedAge is how long the data that a restore replaced is kept.
const replacedAge = 30 * 24 * time.Hour

func (p *pruner) replaced(context.Context) error {
	dir := filepath.Dir(p.s.db.path)
	es, err := readDirIf(dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "replaced-") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if at := nameTime(e.Name(), p.now); p.now.Sub(at) <= replacedAge {
			continue
		}
		p.count("replaced", 1, dirSize(path))
		if !p.dry {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}
