package channels

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

const (
	kindTelegram   = "telegram"
	telegramURL    = "https://api.telegram.org"
	pollTime       = 50 * time.Second
	firstBackoff   = time.Second
	longestBackoff = time.Minute
	emptyPause     = 10 * time.Millisecond // first pause after a poll that the server didn't hold
	maxDownload    = 20 << 20
	maxUpload      = 50 << 20
)

var telegramLimits = Limits{Text: 4096, Caption: 1024, Unit: utf16Units}

var tokenForm = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{16,128}$`)

func checkToken(token string) error {
	if !tokenForm.MatchString(token) {
		return fault.InvalidField("token", fault.CodeInvalid, "This is not a bot token. Copy the one that @BotFather shows, such as 123456:ABC….")
	}
	return nil
}

// telegram is an adapter that receives the messages of a Telegram bot by long polling.
type telegram struct {
	s      *Service
	c      channelRow
	token  string
	client *safehttp.Client
	bot    *bot.Bot
	cursor int64 // id of the last update that was handled; used by Run only
	*condition

	reached chan struct{} // a request succeeded, which ends a back-off
	mu      sync.Mutex
	me      *models.User // nil: not asked yet
}

func newTelegram(s *Service, c *channelRow, token string) (*telegram, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	client, err := s.serviceClient(c.config.URL, telegramURL, safehttp.Options{MaxRequest: maxUpload + 1<<20, MaxBody: maxDownload, Timeout: pollTime + 15*time.Second})
	if err != nil {
		return nil, err
	}
	t := &telegram{s: s, c: *c, token: token, client: client, condition: newCondition(s, c, Disconnected), reached: make(chan struct{}, 1)}
	t.cursor, _ = strconv.ParseInt(c.cursor, 10, 64) // empty: from the start
	quiet := func(err error) { s.log.Debug("telegram", "channel", c.id, "err", t.hide(err)) }
	t.bot, err = bot.New(token, bot.WithSkipGetMe(), bot.WithServerURL(t.base()), bot.WithHTTPClient(pollTime, t), bot.WithErrorsHandler(quiet))
	return t, err
}

func (t *telegram) base() string {
	return strings.TrimSuffix(firstOf(t.c.config.URL, telegramURL), "/")
}

// Limits implements Adapter.
func (t *telegram) Limits() Limits { return telegramLimits }

// Do sends a request of the library, whose address contains the token.
func (t *telegram) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	resp, err := t.client.Do(r.Context(), safehttp.Request{Method: r.Method, URL: r.URL.String(), Header: r.Header, Body: body, SensitiveBody: true})
	if err != nil {
		return nil, t.hide(err)
	}
	return &http.Response{StatusCode: resp.Status, Header: resp.Header, Body: io.NopCloser(strings.NewReader(string(resp.Body)))}, nil
}

// hide removes the token from an error.
func (t *telegram) hide(err error) error {
	f := fault.As(err)
	clean := func(text string) string { return strings.ReplaceAll(text, t.token, "***") }
	out := fault.New(f.Kind, "%s", clean(f.Message))
	if f.Err != nil {
		out = out.WithCause(errors.New(clean(f.Err.Error())))
	}
	return out
}

// Run implements Adapter.
func (t *telegram) Run(ctx context.Context, sink Sink) error {
	defer t.client.Close()
	var pause, backoff time.Duration // after empty answers, and after errors
	for ctx.Err() == nil {
		began := t.s.o.Clock.Now()
		n, err := t.poll(ctx, sink)
		if err == nil {
			backoff = 0
		} else {
			pause = 0
		}
		var refused *SendError
		switch {
		case ctx.Err() != nil:
		case err == nil && n == 0 && t.s.o.Clock.Now().Sub(began) < firstBackoff: // the server doesn't hold polls
			pause = min(max(emptyPause, 2*pause), firstBackoff)
			t.wait(ctx, pause, nil)
		case err == nil:
			pause = 0
		case errors.As(err, &refused) && refused.Final:
			return err
		default:
			backoff = min(max(firstBackoff, 2*backoff), longestBackoff)
			if refused != nil {
				backoff = max(backoff, refused.After)
			}
			t.wait(ctx, backoff, t.reached)
		}
	}
	return nil
}

// wait waits for a time, or until early receives.
func (t *telegram) wait(ctx context.Context, d time.Duration, early <-chan struct{}) {
	timer, stop := t.s.o.Clock.After(d)
	defer stop()
	select {
	case <-timer:
	case <-early:
	case <-ctx.Done():
	}
}

// poll receives updates and hands them to sink. It returns how many there were.
func (t *telegram) poll(ctx context.Context, sink Sink) (int, error) {
	if err := t.identify(ctx); err != nil {
		return 0, err
	}
	updates, err := t.updates(ctx)
	if err != nil {
		return 0, t.failed(err, true)
	}
	t.set(Connected, "")
	handled := t.cursor
	for _, raw := range updates {
		var head struct {
			ID int64 `json:"update_id"`
		}
		var u models.Update
		if json.Unmarshal(raw, &head) != nil || head.ID == 0 {
			t.s.log.Warn("Telegram sent an update without an id", "channel", t.c.id)
			continue
		}
		if json.Unmarshal(raw, &u) != nil {
			t.s.log.Warn("a malformed update of Telegram was skipped", "channel", t.c.id, "update", head.ID)
		} else if err = t.take(ctx, sink, &u); err != nil {
			break
		}
		handled = head.ID
	}
	if handled != t.cursor {
		if err := sink.SetCursor(ctx, strconv.FormatInt(handled, 10)); err != nil {
			return 0, err
		}
		t.cursor = handled
	}
	return len(updates), err
}

// identify asks once whose token it is.
func (t *telegram) identify(ctx context.Context) error {
	t.mu.Lock()
	known := t.me != nil
	t.mu.Unlock()
	if known {
		return nil
	}
	me, err := t.bot.GetMe(ctx)
	if err != nil {
		return t.failed(err, true)
	}
	t.mu.Lock()
	t.me = me
	t.mu.Unlock()
	t.setAccount("@" + me.Username)
	return nil
}

// take hands an update to sink. An error means that it must be offered again.
func (t *telegram) take(ctx context.Context, sink Sink, u *models.Update) error {
	in, ok := t.incoming(u)
	if !ok {
		t.s.log.Debug("an update of Telegram was skipped", "channel", t.c.id, "update", u.ID)
		return nil
	}
	err := sink.Accept(ctx, in)
	switch fault.KindOf(err) {
	case fault.Denied, fault.Conflict, fault.Limit, fault.Invalid:
		return nil
	}
	return err
}

// updates asks for the updates after the cursor. The library's own loop would confirm updates before
// they are stored, and would drop all of a response in which one is malformed.
func (t *telegram) updates(ctx context.Context) ([]json.RawMessage, error) {
	hold := pollTime
	if t.Health().State != Connected { // learn at once whether it works
		hold = 0
	}
	body := jsonText(map[string]any{
		"offset": t.cursor + 1, "timeout": int(hold / time.Second),
		"allowed_updates": []string{models.AllowedUpdateMessage, models.AllowedUpdateEditedMessage, models.AllowedUpdateCallbackQuery},
	})
	resp, err := t.client.Do(ctx, safehttp.Request{
		Method: http.MethodPost, URL: t.base() + "/bot" + t.token + "/getUpdates", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), SensitiveBody: true,
	})
	if err != nil {
		return nil, t.hide(err)
	}
	var out struct {
		OK          bool
		Result      []json.RawMessage
		Description string
		ErrorCode   int `json:"error_code"`
		Parameters  struct {
			RetryAfter int `json:"retry_after"`
		}
	}
	if err := json.Unmarshal(resp.Body, &out); err != nil {
		return nil, fault.Unavailablef("Telegram's answer with the status %d can't be read.", resp.Status)
	}
	switch {
	case out.OK:
		return out.Result, nil
	case out.ErrorCode == http.StatusUnauthorized, out.ErrorCode == http.StatusNotFound:
		return nil, bot.ErrorUnauthorized
	case out.ErrorCode == http.StatusConflict && strings.Contains(out.Description, "webhook"):
		return nil, errHasWebhook
	case out.ErrorCode == http.StatusConflict:
		return nil, bot.ErrorConflict
	case out.ErrorCode == http.StatusTooManyRequests:
		return nil, &bot.TooManyRequestsError{RetryAfter: out.Parameters.RetryAfter}
	}
	return nil, fault.Unavailablef("Telegram answered with the error %d.", out.ErrorCode)
}

var errHasWebhook = errors.New("the bot has a webhook")

// failed says how to go on after an error of a request, and notes what it means for the channel.
func (t *telegram) failed(err error, polling bool) *SendError {
	var many *bot.TooManyRequestsError
	var moved *bot.MigrateError
	state, out := Failed, &SendError{}
	switch {
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound):
		out.Err = fault.Deniedf("Telegram refused the token. Get a new one from @BotFather and enter it here.")
		out.After = longestRetry // messages wait for another token
		t.set(Failed, fault.As(out.Err).Message)
		out.Final = polling
		return out
	case errors.Is(err, errHasWebhook):
		out.Err = fault.Conflictf("This bot sends its messages to a webhook. Remove the webhook, or use another bot.")
	case errors.Is(err, bot.ErrorConflict):
		out.Err = fault.Conflictf("Another program polls this bot. Stop it, or use another bot.")
	case errors.As(err, &many):
		state, out.After = "", min(duration.Of(max(many.RetryAfter, 0), time.Second), time.Hour)
		out.Err = fault.Limitf("Telegram asks to wait %d s.", many.RetryAfter)
	case errors.Is(err, bot.ErrorForbidden):
		state, out.Final, out.Err = "", true, fault.Deniedf("The bot was blocked or removed from this chat.")
	case errors.As(err, &moved):
		state, out.Final, out.Err = "", true, fault.NotFoundf("This group has another id now: %d. Allow its members there.", moved.MigrateToChatID)
	case errors.Is(err, bot.ErrorBadRequest):
		state, out.Final, out.Err = "", true, fault.Invalidf("Telegram refused the message: %s.", strings.TrimPrefix(err.Error(), "bad request, "))
	default:
		state = Disconnected
		out.Err = fault.Unavailablef("Couldn't reach Telegram. Helix tries again by itself.").WithCause(t.hide(err))
	}
	if polling { // it is not about a message
		out.Final = false
		if state == "" {
			state = Disconnected
		}
	}
	if state != "" {
		t.set(state, fault.As(out.Err).Message)
	}
	return out
}

// Send implements Adapter.
func (t *telegram) Send(ctx context.Context, m Outgoing) (string, error) {
	chat, topic, err := telegramChat(m.ContextID)
	if err != nil {
		return "", &SendError{Final: true, Err: err}
	}
	if m.File != nil {
		sent, err := t.bot.SendDocument(ctx, &bot.SendDocumentParams{
			ChatID: chat, MessageThreadID: topic, Caption: m.Text, Document: &models.InputFileUpload{Filename: m.File.Name, Data: strings.NewReader(string(m.File.Data))},
		})
		return t.sent(sent, err)
	}
	p := &bot.SendMessageParams{
		ChatID: chat, MessageThreadID: topic, Text: telegramHTML(m.Text), ParseMode: models.ParseModeHTML,
		// A preview would make Telegram open an address that the agent wrote, with what is in it.
		LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: bot.True()},
	}
	sent, err := t.bot.SendMessage(ctx, p)
	if errors.Is(err, bot.ErrorBadRequest) { // perhaps for its format
		p.Text, p.ParseMode = m.Text, ""
		sent, err = t.bot.SendMessage(ctx, p)
	}
	return t.sent(sent, err)
}

func (t *telegram) sent(m *models.Message, err error) (string, error) {
	var unread *json.UnmarshalTypeError
	if errors.As(err, &unread) {
		m, err = &models.Message{}, nil // it was sent, in words that the library doesn't know; again would repeat it
	}
	if err != nil {
		return "", t.failed(err, false)
	}
	signal(t.reached)
	return strconv.Itoa(m.ID), nil
}

// Typing implements Progress.
func (t *telegram) Typing(ctx context.Context, contextID string) error {
	chat, topic, err := telegramChat(contextID)
	if err == nil {
		_, err = t.bot.SendChatAction(ctx, &bot.SendChatActionParams{ChatID: chat, MessageThreadID: topic, Action: models.ChatActionTyping})
	}
	return err
}

// Status implements Progress.
func (t *telegram) Status(ctx context.Context, contextID, ref, text string) (string, error) {
	if ref == "" {
		return t.Send(ctx, Outgoing{ContextID: contextID, Text: text})
	}
	chat, _, err := telegramChat(contextID)
	if err != nil {
		return "", err
	}
	id, err := strconv.Atoi(ref)
	if err == nil {
		_, err = t.bot.EditMessageText(ctx, &bot.EditMessageTextParams{ChatID: chat, MessageID: id, Text: text})
	}
	return ref, err
}

// removeWebhook makes Telegram keep the messages of a channel's bot for polling. It is done only when a
// person asks for it: another program may depend on the webhook.
func (s *Service) removeWebhook(ctx context.Context, id uuid.UUID) error {
	c, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (channelRow, error) { return loadChannel(tx, id) })
	if err != nil {
		return err
	}
	token, err := s.o.Secrets.Value(ctx, c.secret)
	if err != nil {
		return err
	}
	t, err := newTelegram(s, &c, string(token))
	if err != nil {
		return err
	}
	defer t.client.Close()
	if _, err := t.bot.DeleteWebhook(ctx, &bot.DeleteWebhookParams{}); err != nil {
		return t.failed(err, false).Err
	}
	return nil
}

// download returns the content of a file.
func (t *telegram) download(ctx context.Context, id string) ([]byte, error) {
	f, err := t.bot.GetFile(ctx, &bot.GetFileParams{FileID: id})
	if err != nil {
		return nil, fault.Unavailablef("Telegram doesn't have the file.").WithCause(t.hide(t.failed(err, false).Err))
	}
	address, err := url.JoinPath(t.base(), "file", "bot"+t.token, f.FilePath)
	if err != nil {
		return nil, t.hide(err)
	}
	resp, err := t.client.Do(ctx, safehttp.Request{URL: address})
	if err != nil {
		return nil, t.hide(err)
	}
	if resp.Status != http.StatusOK {
		return nil, fault.Unavailablef("Telegram answered with the status %d.", resp.Status)
	}
	return resp.Body, nil
}
