package backend

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"helix/backend/config"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/scrub"
	"helix/backend/storage"
)

// scrubbers remove the secrets of the user in ctx and the host paths of their workspace from text.
type scrubbers struct {
	db        *storage.DB
	tools     func(ctx context.Context) (map[string]string, error)
	providers *providers.Service
	dir       string // of workspaces

	mu   sync.Mutex
	user map[uuid.UUID]scrubber
}

// scrubber is the one of a user, with a digest of the rows that it was created from.
type scrubber struct {
	*scrub.Scrubber
	of [sha256.Size]byte
}

func (b *Backend) newScrubbers(paths config.Paths) *scrubbers {
	return &scrubbers{db: b.DB, tools: b.Tools.SecretValues, providers: b.Providers, dir: workspaces(paths), user: map[uuid.UUID]scrubber{}}
}

// text returns text without secrets. A secret that cannot be read while its key is locked cannot be
// in use either; the published formats of keys are removed in any case.
func (c *scrubbers) text(ctx context.Context, text string) string {
	if text == "" {
		return text
	}
	user := identity.UserID(ctx)
	digest := sha256.New()
	err := c.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT name, value FROM secrets WHERE user_id = ?1 UNION ALL SELECT name, value FROM tool_secrets WHERE user_id = ?1
			UNION ALL SELECT name, CAST(entry AS BLOB) FROM providers WHERE user_id = ?1`, user).Each(func(row storage.Row) error {
			var name string
			var sealed []byte
			err := row.Scan(&name, &sealed)
			digest.Write([]byte(name))
			digest.Write(sealed)
			return err
		})
	})
	of := [sha256.Size]byte(digest.Sum(nil))
	c.mu.Lock()
	have, ok := c.user[user]
	c.mu.Unlock()
	if err == nil && ok && have.of == of {
		return have.String(text)
	}
	var known []scrub.Secret
	complete := err == nil
	for _, values := range []func(context.Context) (map[string]string, error){c.tools, c.providers.Keys} {
		m, err := values(ctx)
		complete = complete && err == nil
		for name, value := range m {
			known = append(known, scrub.Secret{Name: name, Value: value})
		}
	}
	dir := filepath.Join(c.dir, user.String())
	folders := map[string]string{}
	for _, host := range []string{dir, resolved(dir)} {
		folders[host] = "/"
		for _, area := range []string{"shared", "tmp", "vault"} {
			folders[filepath.Join(host, area)] = "/" + area
		}
	}
	have = scrubber{scrub.New(known, scrub.Options{Paths: folders}), of}
	if complete {
		c.mu.Lock()
		c.user[user] = have
		c.mu.Unlock()
	}
	return have.String(text)
}

// resolved resolves links in a path that may not exist yet.
func resolved(dir string) string {
	if at, err := filepath.EvalSymlinks(dir); err == nil {
		return at
	}
	return dir
}
