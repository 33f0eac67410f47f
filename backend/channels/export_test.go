package channels

import "context"

// UseAdapter makes the channels of s use an adapter of a test.
func UseAdapter(s *Service, a Adapter) {
	s.newAdapter = func(context.Context, *channelRow) (Adapter, error) { return a, nil }
}

// LimitsOf returns the limits of a kind of channel.
func LimitsOf(kind string) Limits { return limitsOf(kind) }

// CrashPoints calls f between the steps of handling messages.
func CrashPoints(s *Service, f func(step string)) { s.crashPoint = f }

// TelegramHTML renders Markdown for Telegram.
func TelegramHTML(markdown string) string { return telegramHTML(markdown) }
