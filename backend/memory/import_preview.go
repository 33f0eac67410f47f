package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"helix/backend/identity"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

const (
	previewFor      = 4 * time.Second // a preview that reads for longer is partial
	previewSamples  = 5
	previewWarnings = 20
	sampleText      = 240 // characters
)

// ImportPreview reports what an import would add, without changing anything. It reads for at most
// four seconds; the result for a larger source is marked as partial.
func (s *Service) ImportPreview(ctx context.Context, p ImportParams) (PreviewResult, error) {
	o, err := s.importOptions(p)
	if err != nil {
		return PreviewResult{}, err
	}
	r, done, err := s.openImport(&o, importer.Position{})
	if err != nil {
		return PreviewResult{}, err
	}
	defer done()
	defer r.Close()
	o.Format, o.DryRun = r.Format(), true
	job := &importJob{user: identity.UserID(ctx), o: o, format: o.Format}
	v := &preview{PreviewResult: PreviewResult{Format: o.Format, Folder: r.Folder(), Samples: []ImportSample{}, Warnings: []string{}}}
	for _, p := range r.Problems() {
		v.warn(&p)
	}
	for until := time.Now().Add(s.previewFor); ; {
		batch, err := v.read(ctx, r, job, until)
		if err != nil && !errors.Is(err, io.EOF) {
			return PreviewResult{}, err
		}
		if e := s.db.Read(ctx, func(tx *storage.Tx) error { return s.dryStore(tx, job, batch) }); e != nil {
			return PreviewResult{}, e
		}
		if err != nil || v.Partial {
			break
		}
	}
	if v.more > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("%d more warnings.", v.more))
	}
	v.Duplicates = job.at.Skipped
	return v.PreviewResult, nil
}

// dryStore counts the effects of storing a batch.
func (s *Service) dryStore(tx *storage.Tx, job *importJob, batch []*prepared) error {
	w := &importWriter{s: s, tx: tx, job: job, at: &job.at, began: time.Now().Add(time.Hour), left: 1 << 62} // limits that are never reached
	for _, p := range batch {
		if _, err := w.record(p); err != nil {
			return err
		}
		job.at.cp = checkpoint{}
	}
	return nil
}

// preview collects the result of ImportPreview.
type preview struct {
	PreviewResult
	more int // number of warnings that are not shown
}

// read reads some records. It returns io.EOF with the last ones.
func (v *preview) read(ctx context.Context, r *importer.Reader, job *importJob, until time.Time) (batch []*prepared, err error) {
	for n := 0; n < importBatch; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if time.Now().After(until) {
			v.Partial = true
			return batch, nil
		}
		rec, err := r.Next(ctx)
		if broken := (*importer.BrokenError)(nil); errors.As(err, &broken) {
			v.warn(&importer.Problem{Message: broken.Error()})
			return batch, io.EOF
		}
		if err != nil {
			return batch, err
		}
		if rec.Problem != nil {
			v.warn(rec.Problem)
			continue
		}
		p := prepare(job, r, rec)
		n += max(p.items(), 1)
		v.count(p)
		batch = append(batch, p)
	}
	return batch, nil
}

func (v *preview) warn(p *importer.Problem) {
	if len(v.Warnings) == previewWarnings {
		v.more++
		return
	}
	where := p.File
	if p.Line > 0 {
		where = strings.TrimSpace(fmt.Sprintf("%s line %d", where, p.Line))
	}
	v.Warnings = append(v.Warnings, strings.TrimPrefix(where+": "+p.Message, ": "))
}

// count adds a record to the counts, the date range and the samples.
func (v *preview) count(p *prepared) {
	v.Items += int64(p.items())
	sample := ImportSample{}
	switch {
	case p.rec.Conversation != nil:
		c := p.rec.Conversation
		if len(c.Turns) == 0 {
			return
		}
		v.Conversations++
		for i := range c.Turns {
			v.seen(c.Turns[i].At)
		}
		t := &c.Turns[0]
		sample = ImportSample{Kind: KindTurn, Title: c.Title, Speaker: t.Speaker, Text: t.Text, OccurredAt: t.At}
	case p.rec.Document != nil:
		d := p.rec.Document
		v.seen(d.Date)
		sample = ImportSample{Kind: KindChunk, Title: d.Title, Text: d.Text, OccurredAt: d.Date}
	case p.rec.Memory != nil:
		m := p.rec.Memory
		v.seen(m.At)
		sample = ImportSample{Kind: KindMemory, Text: m.Content, OccurredAt: m.At}
	}
	if len(v.Samples) < previewSamples {
		sample.Text = clip(headOf(sample.Text+" ", min(len(sample.Text), 4*sampleText)), sampleText)
		v.Samples = append(v.Samples, sample)
	}
}

func (v *preview) seen(at *time.Time) {
	switch {
	case at == nil:
		return
	case v.DateRange == nil:
		v.DateRange = &DateRange{From: *at, To: *at}
	}
	if at.Before(v.DateRange.From) {
		v.DateRange.From = *at
	}
	if at.After(v.DateRange.To) {
		v.DateRange.To = *at
	}
}
