package synthesis

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const maxPersonName = 100 // characters

// Alias is a person's correction: the person that a name in texts refers to.
type Alias struct {
	Name   string // as in texts, or "your sister"
	Person string // the name of the person; "": not a person's name
}

// names maps names, in lower case, to the names of persons, according to a person's corrections.
type names map[string]string // to the person's name, by the name in lower case

func namesOf(list []Alias) names {
	n := make(names, len(list))
	for _, a := range list {
		n[strings.ToLower(a.Name)] = a.Person
	}
	return n
}

// person returns the person that a name refers to: the name itself unless it was corrected, and ""
// for a name that is not a person's. Corrections from two devices can form a cycle; it resolves to
// the alphabetically first of its names.
func (n names) person(name string) string {
	path := []string{name}
	for {
		next, ok := n[strings.ToLower(name)]
		if ok && next == "" {
			return ""
		}
		if !ok || strings.EqualFold(next, name) {
			return cmp.Or(next, name)
		}
		if i := slices.IndexFunc(path, func(s string) bool { return strings.EqualFold(s, next) }); i >= 0 {
			return slices.Min(path[i:])
		}
		path, name = append(path, next), next
	}
}

// corrections returns the stored aliases of a user, sorted by name.
func (s *Service) corrections(tx *storage.Tx, user uuid.UUID) ([]Alias, error) {
	list, err := storage.Collect(tx.Select(`SELECT id, alias, person FROM person_aliases WHERE user_id = ? AND deleted_at IS NULL`, user), func(r storage.Row) (a Alias, err error) {
		var id uuid.UUID
		var name, person []byte
		if err = r.Scan(&id, &name, &person); err != nil {
			return a, err
		}
		row := s.texts("person_aliases", id)
		a = Alias{row.open("alias", name), row.open("person", person)}
		return a, row.err
	})
	slices.SortFunc(list, func(a, b Alias) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// PeopleParams filters people, most often mentioned first.
type PeopleParams struct {
	Query  string `json:"query,omitempty"` // substring of a name or an alias
	Limit  int    `json:"limit,omitempty"` // 1 to 500; default 100
	Offset int    `json:"offset,omitempty"`
}

// PeopleResult is a page of people.
type PeopleResult struct {
	People    []Person `json:"people"`
	Total     int64    `json:"total"`
	Dismissed []string `json:"dismissed"` // names that you marked as not a person's, in alphabetical order
}

// Person is somebody who is mentioned in the newest 10,000 texts or wrote some of them.
type Person struct {
	ID           uuid.UUID `json:"id"`                     // derived from the name: the same on all devices
	Name         string    `json:"name"`                   // such as Anna, or "your sister" for people without a name
	Aliases      []string  `json:"aliases"`                // other names that texts or you use, in alphabetical order
	Relationship string    `json:"relationship,omitempty"` // such as sister, when texts say so
	Mentions     int       `json:"mentions"`               // number of texts that mention them
	Messages     int       `json:"messages"`               // number of texts that they wrote
	FirstSeen    time.Time `json:"firstSeen"`
	LastSeen     time.Time `json:"lastSeen"`
	Corrected    bool      `json:"corrected"` // you have merged or split it
}

// called reports whether the person has a name.
func (p Person) called(name string) bool {
	return strings.EqualFold(p.Name, name) || slices.ContainsFunc(p.Aliases, func(a string) bool { return strings.EqualFold(a, name) })
}

// MergePeopleParams is the request of memory.merge_people: two or more people, by ids or names.
type MergePeopleParams struct {
	IDs   []uuid.UUID `json:"ids,omitempty"`
	Names []string    `json:"names,omitempty"` // names or aliases
	Name  string      `json:"name,omitempty"`  // of the merged person, at most 100 characters; default: that of the first one
}

// MergePeopleResult is the merged person, and a token to undo the merge within ten minutes.
type MergePeopleResult struct {
	Person    Person `json:"person"`
	UndoToken string `json:"undoToken"` // for memory.undo
}

// SplitPersonParams is the request of memory.split_person.
type SplitPersonParams struct {
	Name    string   `json:"name"`    // of the person
	Aliases []string `json:"aliases"` // some of the names of the person that refer to someone else
}

// SplitPersonResult is both people, and a token to undo the split within ten minutes.
type SplitPersonResult struct {
	Person    Person `json:"person"`    // without the aliases
	Split     Person `json:"split"`     // the other person, named after the first alias
	UndoToken string `json:"undoToken"` // for memory.undo
}

// roster is the people in a user's texts with the data they were computed from.
type roster struct {
	user  uuid.UUID
	texts []Text
	names []Alias
	list  []Person
}

// people returns the people in the stored texts.
func (s *Service) people(ctx context.Context) (*roster, error) {
	r := &roster{user: identity.UserID(ctx)}
	var err error
	if r.texts, _, err = s.load(ctx, SynthesizeParams{Limit: maxTexts}); err != nil {
		return nil, err
	}
	sortTexts(r.texts)
	return r, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		r.names, err = s.corrections(tx, r.user)
		s.identify(ctx, r)
		return err
	})
}

// identify computes the people of a roster from its texts and corrections.
func (s *Service) identify(ctx context.Context, r *roster) {
	a := newAnalysis(ctx, Input{Type: Relational, Texts: r.texts, Zone: s.zone(), Names: r.names})
	by := map[string]*Person{}
	get := func(name string) *Person {
		key := strings.ToLower(name)
		if by[key] == nil {
			by[key] = &Person{ID: uuid.NewSHA1(s.db.IDSpace(r.user), []byte("person "+key)), Name: name, Aliases: []string{}}
		}
		return by[key]
	}
	seen := func(p *Person, at time.Time) {
		if p.FirstSeen.IsZero() || at.Before(p.FirstSeen) {
			p.FirstSeen = at
		}
		if at.After(p.LastSeen) {
			p.LastSeen = at
		}
	}
	called := func(p *Person, name string) {
		if !p.called(name) {
			p.Aliases = append(p.Aliases, name)
		}
	}
	for _, f := range a.people() {
		if len(f.mentions) == 0 {
			continue
		}
		p := get(f.name)
		p.Relationship, p.Mentions = f.relation, len(f.mentions)
		for _, m := range f.mentions {
			seen(p, a.in.Texts[m].At)
		}
		for _, name := range slices.Sorted(maps.Keys(f.called)) {
			called(p, name)
		}
	}
	for i, t := range a.in.Texts {
		if t.Speaker != "" {
			p := get(t.Speaker)
			p.Messages++
			seen(p, t.At)
			called(p, r.texts[i].Speaker)
		}
	}
	corrected := namesOf(r.names)
	for _, c := range r.names {
		if p := by[strings.ToLower(corrected.person(c.Name))]; p != nil {
			called(p, c.Name)
			p.Corrected = true
		}
	}
	r.list = make([]Person, 0, len(by))
	for _, key := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[key].Aliases)
		r.list = append(r.list, *by[key])
	}
	slices.SortStableFunc(r.list, func(a, b Person) int { return b.Mentions - a.Mentions })
}

func (r *roster) named(name string) (Person, error) {
	i := slices.IndexFunc(r.list, func(p Person) bool { return p.called(strings.TrimSpace(name)) })
	if i < 0 {
		return Person{}, fault.NotFoundf("Nobody is called %q in your texts.", name)
	}
	return r.list[i], nil
}

// People lists the people in the newest 10,000 texts. Names of the same person are merged
// automatically and by your corrections.
func (s *Service) People(ctx context.Context, p PeopleParams) (PeopleResult, error) {
	out := PeopleResult{People: []Person{}, Dismissed: []string{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 100, 500); err != nil {
		return out, err
	}
	r, err := s.people(ctx)
	if err != nil {
		return out, err
	}
	out.Dismissed = append(out.Dismissed, r.dismissed()...)
	query := strings.ToLower(strings.TrimSpace(p.Query))
	list := slices.DeleteFunc(r.list, func(x Person) bool {
		return !slices.ContainsFunc(append([]string{x.Name}, x.Aliases...), func(n string) bool { return strings.Contains(strings.ToLower(n), query) })
	})
	out.Total = int64(len(list))
	list = list[min(p.Offset, len(list)):]
	out.People = append(out.People, list[:min(p.Limit, len(list))]...)
	return out, nil
}

// MergePeople merges several people into one. Lists of people change immediately, patterns with the
// next synthesis, and later runs preserve it. It can be undone.
func (s *Service) MergePeople(ctx context.Context, p MergePeopleParams) (out MergePeopleResult, err error) {
	r, err := s.people(ctx)
	if err != nil {
		return out, err
	}
	var chosen []Person
	add := func(x Person) {
		if !slices.ContainsFunc(chosen, func(y Person) bool { return y.ID == x.ID }) {
			chosen = append(chosen, x)
		}
	}
	for _, id := range p.IDs {
		i := slices.IndexFunc(r.list, func(x Person) bool { return x.ID == id })
		if i < 0 {
			return out, fault.NotFoundf("Person not found.")
		}
		add(r.list[i])
	}
	for _, name := range p.Names {
		x, err := r.named(name)
		if err != nil {
			return out, err
		}
		add(x)
	}
	if len(chosen) < 2 {
		return out, fault.InvalidField("names", fault.CodeInvalid, "Choose at least two people to merge.")
	}
	out.Person, out.UndoToken, err = s.oneName(ctx, r, chosen, cmp.Or(strings.TrimSpace(p.Name), chosen[0].Name))
	return out, err
}

// oneName merges the chosen people under a name that no other person has.
func (s *Service) oneName(ctx context.Context, r *roster, chosen []Person, name string) (now Person, token string, err error) {
	if utf8.RuneCountInString(name) > maxPersonName {
		return now, "", fault.InvalidField("name", fault.CodeRange, "A name can have at most %d characters.", maxPersonName)
	}
	if other, err := r.named(name); err == nil && !slices.ContainsFunc(chosen, func(x Person) bool { return x.ID == other.ID }) {
		return now, "", fault.Conflictf("Someone else is already called %q. Merge them too, or choose another name.", name)
	}
	change := []Alias{{name, name}}
	for _, x := range chosen {
		for _, alias := range append([]string{x.Name}, x.Aliases...) {
			if !strings.EqualFold(alias, name) {
				change = append(change, Alias{alias, name})
			}
		}
	}
	if token, err = s.correct(ctx, r, change); err != nil {
		return now, "", err
	}
	now, err = r.named(name)
	return now, token, err
}

// SplitPerson assigns some aliases of a person to another person. Lists of people change
// immediately, patterns with the next synthesis, and later runs preserve it. It can be undone.
func (s *Service) SplitPerson(ctx context.Context, p SplitPersonParams) (out SplitPersonResult, err error) {
	r, err := s.people(ctx)
	if err != nil {
		return out, err
	}
	was, err := r.named(p.Name)
	if err != nil {
		return out, err
	}
	stay, leave := append([]string{was.Name}, was.Aliases...), []string{}
	for _, alias := range p.Aliases {
		i := slices.IndexFunc(stay, func(n string) bool { return strings.EqualFold(n, strings.TrimSpace(alias)) })
		if i < 0 {
			return out, fault.NotFoundf("%q isn't another name of %s.", alias, was.Name)
		}
		leave, stay = append(leave, stay[i]), slices.Delete(stay, i, i+1)
	}
	if len(leave) == 0 || len(stay) == 0 {
		return out, fault.InvalidField("aliases", fault.CodeInvalid, "Choose at least one name to split off, and keep at least one.")
	}
	var change []Alias
	for _, alias := range stay {
		change = append(change, Alias{alias, stay[0]})
	}
	for _, alias := range leave {
		change = append(change, Alias{alias, leave[0]})
	}
	if out.UndoToken, err = s.correct(ctx, r, change); err != nil {
		return out, err
	}
	if out.Person, err = r.named(stay[0]); err != nil {
		return out, err
	}
	out.Split, err = r.named(leave[0])
	return out, err
}

// correct stores corrections and recomputes the people.
func (s *Service) correct(ctx context.Context, r *roster, change []Alias) (token string, err error) {
	token = UndoPrefix + rand.Text()
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, a := range change {
			if err := s.setAlias(tx, r.user, a, token); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), r.user, PatternsChanged{[]uuid.UUID{}}) })
		var err error
		r.names, err = s.corrections(tx, r.user)
		return err
	})
	if err == nil {
		s.identify(ctx, r)
	}
	return token, err
}

func (s *Service) setAlias(tx *storage.Tx, user uuid.UUID, a Alias, token string) error {
	id := uuid.NewSHA1(s.db.IDSpace(user), []byte("alias "+strings.ToLower(a.Name)))
	row := s.texts("person_aliases", id)
	name, to := row.seal("alias", a.Name), row.seal("person", a.Person)
	before, err := storage.Collect(tx.Select(`SELECT person FROM person_aliases WHERE id = ? AND deleted_at IS NULL`, id), storage.RowTo[[]byte])
	if err != nil {
		return err
	}
	var undo any
	if len(before) > 0 {
		undo = row.seal("undo_person", row.open("person", before[0]))
	}
	if row.err != nil {
		return row.err
	}
	_, err = tx.Exec(`INSERT INTO person_aliases (id, user_id, alias, person, undo_token, undo_person, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
		ON CONFLICT (id) DO UPDATE SET person = excluded.person, undo_token = excluded.undo_token, undo_person = excluded.undo_person, updated_at = excluded.updated_at, deleted_at = NULL`,
		id, user, name, to, token, undo, tx.Now)
	return err
}

// undoAliases undoes a merge or a split. It returns the number of names restored.
func (s *Service) undoAliases(tx *storage.Tx, user uuid.UUID, token string) (n int, err error) {
	type former struct {
		id     uuid.UUID
		person []byte
	}
	list, err := storage.Collect(tx.Select(`SELECT id, undo_person FROM person_aliases WHERE user_id = ? AND undo_token = ? AND updated_at >= ?`, user, token, tx.Now.Add(-undoAge)), func(r storage.Row) (f former, err error) {
		return f, r.Scan(&f.id, &f.person)
	})
	for _, f := range list {
		if f.person == nil {
			_, err = tx.Exec(`UPDATE person_aliases SET deleted_at = ?1, undo_token = NULL, updated_at = ?1 WHERE id = ?2`, tx.Now, f.id)
		} else {
			row := s.texts("person_aliases", f.id)
			person := row.seal("person", row.open("undo_person", f.person))
			if row.err != nil {
				return 0, row.err
			}
			_, err = tx.Exec(`UPDATE person_aliases SET person = ?, undo_token = NULL, undo_person = NULL, updated_at = ? WHERE id = ?`, person, tx.Now, f.id)
		}
		if err != nil {
			return 0, err
		}
	}
	if len(list) > 0 {
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, PatternsChanged{[]uuid.UUID{}}) })
	}
	return len(list), err
}
