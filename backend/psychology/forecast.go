package psychology

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// find loads a memory, an entry or a layer as an item.
func (s *Service) find(tx *storage.Tx, conf Settings, id *uuid.UUID, layer int) (x item, it Item, err error) {
	ctx := tx.Context()
	switch {
	case (id == nil) == (layer == 0):
		return x, it, fault.Invalidf("Provide an ID or a layer number.")
	case layer != 0:
		if err := checkLayer(layer); err != nil {
			return x, it, err
		}
		rows, err := layerRows(tx, identity.UserID(ctx))
		x = rows[layer].item()
		return x, Item{ID: rows[layer].id, Kind: "layer", LayerNumber: layer, Title: layers[layer].name, SalienceTier: x.tier}, err
	}
	found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, 1, *id)
	if err != nil {
		return x, it, err
	}
	if len(found) == 0 {
		r, err := s.one(tx, conf, *id)
		if fault.Is(err, fault.NotFound) {
			err = fault.NotFoundf("No memory or entry has this ID.")
		}
		if err != nil {
			return x, it, err
		}
		return r.item(), itemOfEntry(r.Entry), nil
	}
	x = itemOf(found[0])
	it = Item{ID: *id, Kind: "memory", LayerNumber: x.layer, Pinned: x.pinned, SalienceTier: x.tier}
	return x, it, s.titles(tx, []*Item{&it})
}

// titles sets the titles of memories.
func (s *Service) titles(tx *storage.Tx, items []*Item) error {
	var ids []uuid.UUID
	for _, it := range items {
		if it.Kind == "memory" {
			ids = append(ids, it.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	texts, err := s.memory.TextsTx(tx.Context(), tx, ids)
	for _, it := range items {
		if text, ok := texts[it.ID]; ok {
			it.Title = firstLine(text)
		}
	}
	return err
}

// Forecast returns how a memory, an entry or a layer will decay, and what pinning, another tier or
// reviews would change. Its current value equals that of all other methods.
func (s *Service) Forecast(ctx context.Context, p ForecastParams) (out ForecastResult, err error) {
	if p.Points == 0 {
		p.Points = 60
	}
	if p.Points < 2 || p.Points > 500 {
		return out, fault.Limitf("A forecast must have 2 to 500 points.")
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		from := tx.Now
		set(&from, p.From)
		to := from.AddDate(0, 0, 90)
		set(&to, p.To)
		if !from.Before(to) {
			return fault.InvalidField("to", fault.CodeInvalid, "The end of a forecast must be after its start.")
		}
		if to.Sub(from) > longest {
			return fault.Limitf("A forecast can cover at most two years.")
		}
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		was, it, err := s.find(tx, conf, p.ID, p.LayerNumber)
		if err != nil {
			return err
		}
		x := was
		var reviews []time.Time
		if w := p.WhatIf; w != nil {
			set(&x.pinned, w.Pinned)
			if w.Tier != "" {
				if _, ok := tierPace[w.Tier]; !ok {
					return fault.InvalidField("whatIf/tier", fault.CodeInvalid, "The tier must be critical, high, medium or low, not %q.", w.Tier)
				}
				x.tier = w.Tier
			}
		}
		if it.Kind != "layer" {
			if reviews, err = planned(tx, identity.UserID(ctx), it.ID); err != nil {
				return err
			}
		}
		plan := reviews
		if w := p.WhatIf; w != nil && w.ReinforceAt != nil {
			reviews = slices.SortedFunc(slices.Values(w.ReinforceAt), time.Time.Compare)
		}
		now := conf.retention(was, tx.Now)
		switch {
		case x.pinned && !was.pinned: // it keeps the retention at the moment of pinning
			if it.Kind == "memory" { // pinning a memory confirms it
				now += gains["confirm"] * (1 - now)
			}
			x.stored = &now
		case !x.pinned && was.pinned: // it decays from there
			x.strength, x.anchor = now, tx.Now
		}
		it.Retention = conf.retention(was, tx.Now)
		out = ForecastResult{Law: LawOf(x.layer), Floor: min(conf.floor(x), x.strength), Crossings: []Fading{}, Cause: cause(conf, x, tx.Now), Item: it, PlannedReviews: plan}
		out.Reason = out.Cause.sentence(x, it.Kind)
		step := to.Sub(from) / time.Duration(p.Points-1)
		since := from.Add(-1)
		cross := func(until time.Time) { // the threshold crossings of x until a time
			for _, t := range append(slices.Clone(thresholds), out.Floor) {
				if at, ok := conf.crosses(x, t); ok && t > 0 && t < x.strength && at.After(since) && !at.After(until) {
					out.Crossings = append(out.Crossings, Fading{t, at})
				}
			}
			since = until
		}
		out.Points = make([]Point, p.Points)
		curve := conf.curve(x)
		for i := range out.Points {
			at := from.Add(time.Duration(i) * step)
			for len(reviews) > 0 && !reviews[0].After(at) {
				cross(reviews[0])
				x = reviewed(conf, x, reviews[0])
				curve, reviews = conf.curve(x), reviews[1:]
			}
			out.Points[i] = Point{at, curve.at(at)}
		}
		cross(to)
		slices.SortStableFunc(out.Crossings, func(a, b Fading) int { return a.At.Compare(b.At) })
		return nil
	})
}

// reviewGain is the fraction of the lost retention that a review restores.
const reviewGain = 0.3

// reviewed returns x after a review.
func reviewed(conf Settings, x item, at time.Time) item {
	r := conf.retention(x, at)
	x.strength, x.anchor = min(1, r+reviewGain*(1-r)), at
	if x.stored != nil {
		x.stored = &x.strength
	}
	return x
}

// cause says why x has its retention.
func cause(conf Settings, x item, now time.Time) Cause {
	switch {
	case !conf.Enabled || !conf.DecayEnabled:
		return Cause{Code: CauseOff}
	case x.pinned:
		return Cause{Code: CausePinned}
	case !conf.on(x.layer):
		return Cause{Code: CauseLayerOff}
	case x.tier == "critical":
		return Cause{Code: CauseCritical}
	}
	return Cause{Code: CauseDecays, Days: int(now.Sub(x.anchor).Hours() / 24), HalfLifeHours: LawOf(x.layer).after(1, 0.5, 0) / pace(x.tier, conf.Rate)}
}

// sentence is the cause of the retention of x in words.
func (c Cause) sentence(x item, kind string) string {
	switch c.Code {
	case CauseOff:
		return "Decay is off: nothing fades."
	case CausePinned:
		return "Pinned: it doesn't fade."
	case CauseLayerOff:
		return fmt.Sprintf("The layer %s is off: it doesn't fade.", layers[x.layer].name)
	case CauseCritical:
		return "Critical: it doesn't fade."
	}
	since := "Revisited today"
	switch {
	case c.Days == 1:
		since = "Not revisited for 1 day"
	case c.Days > 1:
		since = fmt.Sprintf("Not revisited for %d days", c.Days)
	}
	unit := fmt.Sprintf("%.0f days", c.HalfLifeHours/24)
	if c.HalfLifeHours < 48 {
		unit = fmt.Sprintf("%.0f hours", c.HalfLifeHours)
	}
	if x.layer < 1 || x.layer > 7 {
		return fmt.Sprintf("%s; what has no known layer halves in about %s.", since, unit)
	}
	noun := map[string]string{"memory": "memories of ", "entry": "entries of ", "layer": "the layer "}[kind]
	verb := "halve"
	if kind == "layer" {
		verb = "halves"
	}
	tier := ""
	if x.tier != "medium" {
		tier = fmt.Sprintf(" with %s salience", x.tier)
	}
	return fmt.Sprintf("%s; %s%s%s %s in about %s.", since, noun, layers[x.layer].name, tier, verb, unit)
}

// Fading lists memories and entries that will soon fall below 0.3, and those with planned reviews,
// soonest first.
func (s *Service) Fading(ctx context.Context, p FadingParams) (FadingResult, error) {
	out := FadingResult{Items: []FadingItem{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if p.WithinDays == 0 {
		p.WithinDays = 30
	}
	if p.WithinDays < 1 || p.WithinDays > 365 {
		return out, fault.InvalidField("withinDays", fault.CodeRange, "withinDays is %d; it must be 1 to 365.", p.WithinDays)
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		end := tx.Now.AddDate(0, 0, p.WithinDays)
		consider := func(x item, it Item) {
			if at, ok := conf.crosses(x, fadingLine); ok && at.After(tx.Now) && at.Before(end) {
				it.Retention = conf.retention(x, tx.Now)
				why := cause(conf, x, tx.Now)
				out.Items = append(out.Items, FadingItem{Item: it, At: at, Cause: why, Reason: why.sentence(x, it.Kind)})
			}
		}
		entries, err := s.rows(tx, conf, "true")
		if err != nil {
			return err
		}
		for _, r := range entries {
			consider(r.item(), itemOfEntry(r.Entry))
		}
		for after := uuid.Nil; ; {
			list, err := s.memory.DecayingTx(ctx, tx, after, batchSize)
			if err != nil {
				return err
			}
			for _, d := range list {
				x := itemOf(d)
				consider(x, Item{ID: d.ID, Kind: "memory", LayerNumber: x.layer, Pinned: x.pinned, SalienceTier: x.tier})
			}
			if len(list) < batchSize {
				break
			}
			after = list[len(list)-1].ID
		}
		due, err := s.dueReviews(tx, identity.UserID(ctx), conf, end)
		if err != nil {
			return err
		}
		out.Items = append(out.Items, due...)
		slices.SortStableFunc(out.Items, func(a, b FadingItem) int { return a.At.Compare(b.At) })
		out.Total = int64(len(out.Items))
		out.Items = out.Items[min(p.Offset, len(out.Items)):min(p.Offset+p.Limit, len(out.Items))]
		shown := make([]*Item, len(out.Items))
		for i := range out.Items {
			shown[i] = &out.Items[i].Item
		}
		return s.titles(tx, shown)
	})
}
