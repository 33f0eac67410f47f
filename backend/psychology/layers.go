package psychology

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/memory"
	"helix/backend/schema"
	"helix/backend/storage"
)

// layerSpec holds the fixed properties of a layer.
type layerSpec struct {
	name, theory string
	law          Law
}

// layers 1 to 7; index 0 is the law of everything else.
var layers = [8]layerSpec{
	{law: Law{Ebbinghaus, 168}},
	{"Narrative Core", "McAdams, life story", Law{Exponential, 720}},
	{"Emotional Memory", "Damasio, somatic markers", Law{Ebbinghaus, 168}},
	{"Relational Memory", "Attachment theory", Law{Power, 0.5}},
	{"Prospective Self", "Markus and Nurius, possible selves", Law{Exponential, 360}},
	{"Integration Rhythms", "Memory reconsolidation", Law{Ebbinghaus, 240}},
	{"Transformation", "Lewin, unfreeze–change–refreeze", Law{Exponential, 480}},
	{"Purpose Engine", "Frankl, logotherapy; ikigai", Law{Ebbinghaus, 1440}},
}

// Texts returns the English descriptions of the theories behind the layers, by key.
func Texts() map[string]string {
	out := map[string]string{}
	for i, l := range layers[1:] {
		out["layer."+strconv.Itoa(i+1)+".theory"] = l.theory
	}
	return out
}

// Kind is a kind of entry.
type Kind struct {
	Kind   string          `json:"kind"`
	Layer  int             `json:"layer"`
	Title  string          `json:"title"`
	Schema json.RawMessage `json:"schema"` // JSON Schema of its data; additional keys are kept

	check *schema.Schema
}

//go:embed kinds.json
var kindsJSON []byte

// readKinds loads the kinds. A kind without a schema uses that of the next one.
func readKinds() (list []Kind) {
	if err := json.Unmarshal(kindsJSON, &list); err != nil {
		panic(err) // embedded
	}
	for i := range slices.Backward(list) {
		if list[i].Schema == nil {
			list[i].Schema, list[i].check = list[i+1].Schema, list[i+1].check
			continue
		}
		var err error
		if list[i].check, err = schema.Compile(list[i].Schema); err != nil {
			panic(err)
		}
	}
	return list
}

// kindOf returns a kind of a layer.
func (s *Service) kindOf(layer int, kind string) (Kind, error) {
	if err := checkLayer(layer); err != nil {
		return Kind{}, err
	}
	var names []string
	for _, k := range s.kinds() {
		if k.Layer == layer && k.Kind == kind {
			return k, nil
		}
		if k.Layer == layer {
			names = append(names, k.Kind)
		}
	}
	return Kind{}, fault.InvalidField("kind", fault.CodeInvalid, "Layer %d has entries of the kinds %v, not %q.", layer, names, kind)
}

// checkData validates the data of an entry.
func (k Kind) checkData(ctx context.Context, data json.RawMessage) error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err == nil && len(data)-len(parts["earlier"]) > maxData || len(data) > 3*maxData {
		return fault.Limitf("An entry has at most %d KiB.", maxData>>10)
	}
	v, err := jcs.Decode(data, 16, 0)
	if err != nil {
		return fault.InvalidField("data", fault.CodeInvalid, "The data of an entry is a JSON object.")
	}
	if _, ok := v.(map[string]any); !ok {
		return fault.InvalidField("data", fault.CodeInvalid, "The data of an entry is a JSON object.")
	}
	if k.check == nil { // any object is valid
		return nil
	}
	found, err := schema.Mismatches(k.check.Check(ctx, v))
	if err != nil || len(found) == 0 {
		return err
	}
	return fault.InvalidField("data"+found[0].Path, fault.CodeInvalid, "%s: %s. Nothing was saved.", fieldName(found[0].Path), found[0].Message)
}

func fieldName(pointer string) string {
	if pointer == "" {
		return "The entry"
	}
	return pointer[1:]
}

func checkLayer(n int) error {
	if n < 1 || n > 7 {
		return fault.InvalidField("layerNumber", fault.CodeRange, "Layers are 1 to 7.")
	}
	return nil
}

// layerRow is a stored layer.
type layerRow struct {
	id          uuid.UUID
	number      int
	sealed      []byte
	strength    float64
	enabled     bool
	lastUpdated time.Time
	reinforced  *time.Time
	version     int64
	stored      *float64
	created     time.Time
}

func (r layerRow) item() item {
	anchor := r.created
	if r.reinforced != nil {
		anchor = *r.reinforced
	}
	return item{layer: r.number, strength: r.strength, tier: "medium", anchor: anchor, stored: r.stored}
}

// layerRows returns the stored layers of the caller by number. Version 0 means that a layer is not stored.
func layerRows(tx *storage.Tx, user uuid.UUID) (rows [8]layerRow, err error) {
	for n := range rows {
		rows[n] = layerRow{number: n, strength: 1, enabled: true, created: tx.Now, lastUpdated: tx.Now}
	}
	return rows, tx.Select(`SELECT id, layer_number, data, initial_strength, enabled, last_updated, last_reinforced_at, version, retention, created_at FROM psychology_layers WHERE user_id = ? AND deleted_at IS NULL`, user).
		Each(func(r storage.Row) error {
			var l layerRow
			if err := r.Scan(&l.id, &l.number, &l.sealed, &l.strength, &l.enabled, storage.Time(&l.lastUpdated), storage.TimePtr(&l.reinforced), &l.version, &l.stored, storage.Time(&l.created)); err != nil {
				return err
			}
			rows[l.number] = l
			return nil
		})
}

// ensureLayers creates the missing layers of a user.
func (s *Service) ensureLayers(tx *storage.Tx, user uuid.UUID) error {
	rows, err := layerRows(tx, user)
	if err != nil {
		return err
	}
	for n := 1; n <= 7; n++ {
		if rows[n].version > 0 {
			continue
		}
		id := uuid.NewSHA1(s.db.IDSpace(user), []byte("psychology layer "+strconv.Itoa(n)))
		sealed, err := s.db.Keys().Seal("psychology_layers", "data", id, []byte("{}"))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO psychology_layers (id, user_id, layer_number, layer_name, data, decay_model, decay_rate, last_updated, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8)
			ON CONFLICT (id) DO UPDATE SET deleted_at = NULL, updated_at = excluded.updated_at`,
			id, user, n, layers[n].name, sealed, string(layers[n].law.Model), layers[n].law.Parameter, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// layer returns the wire form of a layer with its entries.
func (s *Service) layer(conf Settings, r layerRow, entries []Entry, now time.Time) Layer {
	spec := layers[r.number]
	l := Layer{
		LayerNumber: r.number, LayerName: spec.name, Theory: spec.theory, Data: json.RawMessage("{}"), DecayModel: spec.law.Model, DecayRate: spec.law.Parameter, InitialStrength: r.strength,
		Retention: conf.retention(r.item(), now), LastUpdated: r.lastUpdated, LastReinforcedAt: r.reinforced, Enabled: r.enabled, Version: r.version, Entries: entries, Kinds: []Kind{},
	}
	if r.version > 0 {
		l.ID = &r.id
		plain, err := s.db.Keys().Unseal("psychology_layers", "data", r.id, r.sealed)
		switch {
		case err != nil:
			l.Problem = fault.As(err).Message
		case !json.Valid(plain):
			l.Problem, l.Raw = "The data of this layer is not valid JSON.", string(plain)
		default:
			l.Data = plain
		}
	}
	for _, k := range s.kinds() {
		if k.Layer == r.number {
			l.Kinds = append(l.Kinds, k)
		}
	}
	return l
}

// GetLayer returns a layer with its entries, newest first.
func (s *Service) GetLayer(ctx context.Context, p LayerParams) (out Layer, err error) {
	if err := checkLayer(p.LayerNumber); err != nil {
		return out, err
	}
	all, err := s.allLayers(ctx, p.LayerNumber)
	if err != nil {
		return out, err
	}
	return all[0], nil
}

// GetAllLayers returns the seven layers with their entries.
func (s *Service) GetAllLayers(ctx context.Context, _ struct{}) (LayersResult, error) {
	all, err := s.allLayers(ctx, 0)
	return LayersResult{all}, err
}

// allLayers reads one layer; with only 0, all of them.
func (s *Service) allLayers(ctx context.Context, only int) (out []Layer, err error) {
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		rows, err := layerRows(tx, user)
		if err != nil {
			return err
		}
		for n := 1; n <= 7; n++ {
			if only != 0 && n != only {
				continue
			}
			entries, err := s.entries(tx, conf, "layer_number = ?", n)
			if err != nil {
				return err
			}
			out = append(out, s.layer(conf, rows[n], entries, tx.Now))
		}
		return nil
	})
}

// UpdateLayer changes the text that a person wrote for a layer, its initial strength, or
// whether it decays.
func (s *Service) UpdateLayer(ctx context.Context, p UpdateLayerParams) (out Layer, err error) {
	if err := checkLayer(p.LayerNumber); err != nil {
		return out, err
	}
	if p.Data != nil {
		if err := (Kind{}).checkData(ctx, p.Data); err != nil {
			return out, err
		}
	}
	if v := p.InitialStrength; v != nil && !(*v >= 0 && *v <= 1) {
		return out, fault.InvalidField("initialStrength", fault.CodeRange, "initialStrength must be between 0 and 1.")
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if err := s.ensureLayers(tx, user); err != nil {
			return err
		}
		rows, err := layerRows(tx, user)
		if err != nil {
			return err
		}
		r := rows[p.LayerNumber]
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		if p.Version != 0 && p.Version != r.version {
			return fault.Conflictf("This layer has changed since you opened it. Nothing was overwritten.").WithDetails(s.layer(conf, r, nil, tx.Now))
		}
		sealed := r.sealed
		if p.Data != nil {
			if sealed, err = s.db.Keys().SealChanged("psychology_layers", "data", r.id, r.sealed, p.Data); err != nil {
				return err
			}
		}
		if p.Enabled != nil && *p.Enabled != r.enabled {
			if err := s.rebase(tx, conf, *p.Enabled, map[int]bool{r.number: true}); err != nil {
				return err
			}
		}
		var reinforced *time.Time
		if p.InitialStrength != nil && *p.InitialStrength != r.strength {
			reinforced = &tx.Now
		}
		_, err = tx.Exec(`UPDATE psychology_layers SET data = ?1, initial_strength = coalesce(?2, initial_strength), last_reinforced_at = coalesce(?3, last_reinforced_at), enabled = coalesce(?4, enabled), last_updated = ?5, updated_at = ?5, version = version + 1 WHERE id = ?6 AND user_id = ?7`,
			sealed, p.InitialStrength, reinforced, p.Enabled, tx.Now, r.id, user)
		s.changed(tx, user, []int{p.LayerNumber})
		return err
	})
	if err != nil {
		return out, err
	}
	return s.GetLayer(ctx, LayerParams{p.LayerNumber})
}

// rebase fixes the retention of everything in some layers at its current value under conf: before
// the layers are switched off or, with on, so that it decays from there after they were off.
func (s *Service) rebase(tx *storage.Tx, conf Settings, on bool, in map[int]bool) error {
	ctx := tx.Context()
	user := identity.UserID(ctx)
	query := `UPDATE psychology_entries SET retention = ?1, decayed_at = ?2 WHERE id = ?3 AND user_id = ?4`
	if on {
		query = `UPDATE psychology_entries SET retention = ?1, decayed_at = ?2, initial_strength = iif(pinned, initial_strength, ?1), last_reinforced_at = iif(pinned, last_reinforced_at, ?2) WHERE id = ?3 AND user_id = ?4`
	}
	entries, err := decaying(tx, user, "true")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !in[e.layer] {
			continue
		}
		if _, err := tx.Exec(query, conf.retention(e.item, tx.Now), tx.Now, e.id, user); err != nil {
			return err
		}
	}
	rows, err := layerRows(tx, user)
	if err != nil {
		return err
	}
	for n := range in {
		now := conf.retention(rows[n].item(), tx.Now)
		set := `retention = ?1, decayed_at = ?2`
		if on {
			set += `, initial_strength = ?1, last_reinforced_at = ?2`
		}
		if _, err := tx.Exec(`UPDATE psychology_layers SET `+set+` WHERE id = ?3 AND user_id = ?4`, now, tx.Now, rows[n].id, user); err != nil {
			return err
		}
	}
	store := func(list []memory.Retained) error { _, err := s.memory.RetainTx(ctx, tx, list); return err }
	if on {
		store = func(list []memory.Retained) error { return s.memory.RebaseTx(ctx, tx, list) }
	}
	for after := uuid.Nil; ; {
		list, err := s.memory.DecayingTx(ctx, tx, after, batchSize)
		if err != nil {
			return err
		}
		var kept []memory.Retained
		for _, d := range list {
			if in[layerOf(d)] {
				kept = append(kept, memory.Retained{ID: d.ID, Version: d.Version, Row: d.Row, Retention: conf.retention(itemOf(d), tx.Now)})
			}
		}
		if err := store(kept); err != nil || len(list) < batchSize {
			return err
		}
		after = list[len(list)-1].ID
	}
}

// LayerStatus returns how complete layers are, and which entries cannot be read.
func (s *Service) LayerStatus(ctx context.Context, p StatusParams) (StatusResult, error) {
	out := StatusResult{Layers: []LayerStatus{}}
	if p.LayerNumber != 0 {
		if err := checkLayer(p.LayerNumber); err != nil {
			return out, err
		}
	}
	all, err := s.allLayers(ctx, p.LayerNumber)
	for _, l := range all {
		out.Layers = append(out.Layers, l.status())
	}
	return out, err
}

func (l Layer) status() LayerStatus {
	st := LayerStatus{LayerNumber: l.LayerNumber, LayerName: l.LayerName, Status: "healthy"}
	missing := map[string]bool{}
	for _, k := range l.Kinds {
		missing[k.Title] = !slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Kind == k.Kind })
	}
	bad := slices.IndexFunc(l.Entries, func(e Entry) bool { return e.Problem != "" })
	var lacks []string
	for _, k := range l.Kinds {
		if missing[k.Title] {
			lacks = append(lacks, k.Title)
		}
	}
	switch {
	case l.Problem != "":
		st.Status, st.Reason = "error", l.Problem
	case bad >= 0:
		st.Status, st.Reason, st.ID = "error", l.Entries[bad].Problem, &l.Entries[bad].ID
	case !l.Enabled:
		st.Status, st.Reason = "inactive", "This layer is off."
	case len(l.Entries) == 0:
		st.Status, st.Reason = "inactive", "There are no entries yet."
	case len(lacks) > 0:
		st.Status, st.Reason, st.Missing = "warning", "Some kinds have no entry yet.", lacks
	}
	return st
}

// layerSums collects the data of an overview of a layer. Of the entries it keeps only those needed
// to determine how complete the layer is: one of each kind, and the first that cannot be read.
type layerSums struct {
	entries, fading int
	reinforced      *time.Time
	kept            []Entry
	strongest       []Entry // at most namedEntries, the newest of equals first
	trust           []float64
}

// namedEntries is the number of entries named in the summary of a layer.
const namedEntries = 3

func (l *layerSums) add(e *Entry) {
	l.entries++
	if e.Retention < fadingLine {
		l.fading++
	}
	if at := e.LastReinforcedAt; at != nil && (l.reinforced == nil || at.After(*l.reinforced)) {
		l.reinforced = at
	}
	if !slices.ContainsFunc(l.kept, func(k Entry) bool { return e.Problem == "" && k.Kind == e.Kind || e.Problem != "" && k.Problem != "" }) {
		l.kept = append(l.kept, *e)
	}
	at := len(l.strongest)
	for at > 0 && (e.Retention > l.strongest[at-1].Retention || e.Retention == l.strongest[at-1].Retention && bytes.Compare(e.ID[:], l.strongest[at-1].ID[:]) > 0) {
		at--
	}
	if at < namedEntries {
		l.strongest = slices.Insert(l.strongest, at, *e)
		l.strongest = l.strongest[:min(namedEntries, len(l.strongest))]
	}
	if t := trustOf(*e); t != nil && t.Interactions > 0 {
		l.trust = append(l.trust, t.Trust.Overall)
	}
}

// summary names the strongest entries.
func (l *layerSums) summary() string {
	titles := make([]string, len(l.strongest))
	for i, e := range l.strongest {
		titles[i] = e.title()
	}
	return strings.Join(titles, ", ")
}

// Overview summarizes the seven layers.
func (s *Service) Overview(ctx context.Context, _ struct{}) (out Overview, err error) {
	var trust []float64
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		user := identity.UserID(ctx)
		if out.Settings, err = settings(tx, user); err != nil {
			return err
		}
		rows, err := layerRows(tx, user)
		if err != nil {
			return err
		}
		var sums [8]layerSums
		if err := s.visitEntries(tx, out.Settings, func(layer int, e *Entry) { sums[layer].add(e) }); err != nil {
			return err
		}
		for n := 1; n <= 7; n++ {
			of := &sums[n]
			l := s.layer(out.Settings, rows[n], of.kept, tx.Now)
			st := l.status()
			last := l.LastReinforcedAt
			if of.reinforced != nil && (last == nil || of.reinforced.After(*last)) {
				last = of.reinforced
			}
			out.Layers = append(out.Layers, OverviewLayer{LayerNumber: n, LayerName: l.LayerName, Theory: l.Theory, Status: st.Status, Reason: st.Reason, Retention: l.Retention, Entries: of.entries, Fading: of.fading, LastReinforcedAt: last, Enabled: l.Enabled, Summary: of.summary()})
			trust = append(trust, of.trust...)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if len(trust) > 0 {
		sum := 0.0
		for _, t := range trust {
			sum += t
		}
		sum /= float64(len(trust))
		out.TrustOverall = &sum
	}
	if s.o.NextRun != nil {
		out.NextDecayAt = s.o.NextRun(ctx)
	}
	return out, nil
}
