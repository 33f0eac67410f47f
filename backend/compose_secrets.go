package backend

import (
	"context"
	"errors"
	"slices"

	"helix/backend/cloudsync"
	"helix/backend/transcribe"
)

// secretUsers returns labels of what uses each of the caller's secrets. Names that are not stored may
// be among them.
func (b *Backend) secretUsers(ctx context.Context) (map[string][]string, error) {
	users := map[string][]string{}
	add := func(secret, user string) {
		if !slices.Contains(users[secret], user) {
			users[secret] = append(users[secret], user)
		}
	}
	err := errors.Join(b.Providers.SecretUsers(ctx, add), b.MCP.SecretUsers(ctx, add), b.Discovery.SecretUsers(ctx, add),
		b.Containers.SecretUsers(ctx, add), b.Channels.SecretUsers(ctx, add))
	add(transcribe.DeepgramSecret, "transcription with Deepgram")
	add(b.CoreTools.SearchSecret(), "web search")
	for _, name := range cloudsync.SecretNames() {
		add(name, "sync")
	}
	for _, list := range users {
		slices.Sort(list)
	}
	return users, err
}
