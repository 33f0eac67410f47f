package voice

import (
	"cmp"
	"context"
	"regexp"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

var languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

func settings(tx *storage.Tx, user uuid.UUID) (s Settings, err error) {
	d := Settings{Provider: "local", Model: "nova-3", Language: "en-US", LocalEngine: "pocketsphinx", Fallback: "queue"}
	err = tx.QueryRow(`SELECT coalesce(provider, ''), coalesce(model, ''), coalesce(language, ''), coalesce(local_engine, ''), coalesce(fallback, '')
		FROM (SELECT 1) LEFT JOIN voice_settings ON user_id = ? AND deleted_at IS NULL`, user).Scan(&s.Provider, &s.Model, &s.Language, &s.LocalEngine, &s.Fallback)
	return Settings{cmp.Or(s.Provider, d.Provider), cmp.Or(s.Model, d.Model), cmp.Or(s.Language, d.Language), cmp.Or(s.LocalEngine, d.LocalEngine), cmp.Or(s.Fallback, d.Fallback)}, err
}

// engine returns the id of the selected engine.
func (s Settings) engine() string {
	if s.Provider == "local" {
		return s.LocalEngine
	}
	return s.Provider
}

// Settings returns the caller's settings.
func (s *Service) Settings(ctx context.Context, _ struct{}) (out Settings, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out, err = settings(tx, identity.UserID(ctx))
		return err
	})
	return out, err
}

// UpdateSettings changes settings. They apply to later transcriptions.
func (s *Service) UpdateSettings(ctx context.Context, p SettingsParams) (out Settings, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if out, err = settings(tx, user); err != nil {
			return err
		}
		for _, f := range []struct {
			to   *string
			from *string
		}{{&out.Provider, p.Provider}, {&out.Model, p.Model}, {&out.Language, p.Language}, {&out.LocalEngine, p.LocalEngine}, {&out.Fallback, p.Fallback}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		if err := s.check(ctx, out); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO voice_settings (id, user_id, provider, model, language, local_engine, fallback, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
			ON CONFLICT (user_id) DO UPDATE SET provider = excluded.provider, model = excluded.model, language = excluded.language, local_engine = excluded.local_engine, fallback = excluded.fallback,
				updated_at = excluded.updated_at, deleted_at = NULL`,
			uuid.NewSHA1(s.db.IDSpace(user), []byte("voice settings")), user, out.Provider, out.Model, out.Language, out.LocalEngine, out.Fallback, tx.Now)
		return err
	})
	return out, err
}

func (s *Service) check(ctx context.Context, c Settings) error {
	local := s.engine(c.LocalEngine)
	switch {
	case c.Provider != "local" && c.Provider != "deepgram":
		return fault.InvalidField("provider", fault.CodeRange, "provider must be local or deepgram.")
	case len(c.Model) == 0 || len(c.Model) > 64:
		return fault.InvalidField("model", fault.CodeRange, "model has 1 to 64 characters.")
	case !languageTag.MatchString(c.Language):
		return fault.InvalidField("language", fault.CodeInvalid, "language must be a tag such as en-US.")
	case local == nil || !local.Info(ctx).Local:
		return fault.InvalidField("localEngine", fault.CodeRange, "There is no local engine %.40q. List the engines with: helix voice models", c.LocalEngine)
	case c.Fallback != "queue" && c.Fallback != "local":
		return fault.InvalidField("fallback", fault.CodeRange, "fallback must be queue or local.")
	}
	return nil
}
