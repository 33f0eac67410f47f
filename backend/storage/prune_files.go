package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keepBackups selects the automatic backups and snapshots to drop. It keeps the newest of each of
// the last days and weeks that have one, and some from before migrations, as many of each as pol
// says, if they are not older than its age and together not larger than its size limit. The newest
// of each kind is always kept. all is sorted newest first.
func keepBackups(all []BackupInfo, now time.Time, pol Policy) (drop []BackupInfo) {
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
			if !days[day] && len(days) < pol.KeepDaily {
				days[day], keep = true, true
			}
			if !weeks[week] && len(weeks) < pol.KeepWeekly {
				weeks[week], keep = true, true
			}
		case "pre-migration", "rolled-back":
			snapshots++
			keep = snapshots <= pol.KeepSnapshots
		default:
			continue // created by the user: never deleted automatically
		}
		first := !newest[b.Kind]
		newest[b.Kind] = true
		if !first && (now.Sub(b.CreatedAt) > pol.BackupAge || total+b.SizeBytes > pol.BackupMax) {
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
	for _, b := range keepBackups(all, p.now, p.pol) {
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

// replacedAge is how long the data replaced by a restore is kept.
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
