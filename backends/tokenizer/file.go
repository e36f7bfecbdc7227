package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// file is a tokenizer.json as Hugging Face tokenizers writes it, as far as
// Llama models use it. What would change the ids and is not known here is an
// error, not passed over.
type file struct {
	Added         []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	Model         modelFile    `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Special    bool   `json:"special"`
}

type modelFile struct {
	Type         string           `json:"type"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       []mergeEntry     `json:"merges"`
	Dropout      float64          `json:"dropout"`
	Unknown      *string          `json:"unk_token"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
	FuseUnknown  bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
}

// mergeEntry is a pair of pieces: "a b" in older files, ["a","b"] in newer.
type mergeEntry [2]string

func (m *mergeEntry) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var parts []string
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		if len(parts) != 2 {
			return fmt.Errorf("a merge of %d pieces, must be 2", len(parts))
		}
		*m = mergeEntry(parts)
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	left, right, ok := strings.Cut(text, " ")
	if !ok {
		return fmt.Errorf("merge %q has no blank between its pieces", text)
	}
	*m = mergeEntry{left, right}
	return nil
}

// component is any normalizer, pre-tokenizer, post-processor or decoder.
type component struct {
	Type string `json:"type"`

	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Decoders      []component `json:"decoders"`

	Prepend string   `json:"prepend"`
	Pattern *pattern `json:"pattern"`
	Content string   `json:"content"`
	Start   int      `json:"start"`

	Behavior       string  `json:"behavior"`
	Invert         bool    `json:"invert"`
	AddPrefixSpace bool    `json:"add_prefix_space"`
	UseRegex       *bool   `json:"use_regex"`
	Replacement    string  `json:"replacement"`
	PrependScheme  *string `json:"prepend_scheme"`
	Split          *bool   `json:"split"`

	Single  []templatePart           `json:"single"`
	Special map[string]templateToken `json:"special_tokens"`
}

type pattern struct {
	String string `json:"String"`
	Regex  string `json:"Regex"`
}

type templatePart struct {
	Special *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type templateToken struct {
	IDs []int32 `json:"ids"`
}

// list returns a sequence's members, a single component as a list of one, and
// nothing for null.
func (c *component) list(members func(*component) []component) []component {
	switch {
	case c == nil:
		return nil
	case c.Type == "Sequence":
		return members(c)
	}
	return []component{*c}
}

// maxID bounds the vocabulary that is read.
const maxID = 1 << 22

// parse builds the tokenizer that a tokenizer.json describes.
func parse(data []byte) (*Tokenizer, *hub, error) {
	var f file
	if err := Unmarshal(data, &f); err != nil {
		return nil, nil, err
	}
	h := &hub{}
	if err := h.readModel(&f.Model); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	if err := h.readAdded(f.Added); err != nil {
		return nil, nil, fmt.Errorf("added_tokens: %w", err)
	}
	for _, c := range f.Normalizer.list(func(c *component) []component { return c.Normalizers }) {
		if err := h.readNormalizer(&c); err != nil {
			return nil, nil, fmt.Errorf("normalizer: %w", err)
		}
	}
	for _, c := range f.PreTokenizer.list(func(c *component) []component { return c.PreTokenizers }) {
		if err := h.readPreTokenizer(&c); err != nil {
			return nil, nil, fmt.Errorf("pre_tokenizer: %w", err)
		}
	}
	for _, c := range f.Decoder.list(func(c *component) []component { return c.Decoders }) {
		if err := h.readDecoder(&c); err != nil {
			return nil, nil, fmt.Errorf("decoder: %w", err)
		}
	}
	if err := h.decodePieces(); err != nil {
		return nil, nil, err
	}
	t := &Tokenizer{model: h, vocab: len(h.pieces), bos: -1, eos: -1}
	for _, c := range f.PostProcessor.list(func(c *component) []component { return c.Processors }) {
		if err := t.readPostProcessor(&c); err != nil {
			return nil, nil, fmt.Errorf("post_processor: %w", err)
		}
	}
	return t, h, nil
}

func (h *hub) readModel(m *modelFile) error {
	switch {
	case m.Type != "BPE" && m.Type != "":
		return fmt.Errorf("type is %q, only BPE can be read", m.Type)
	case m.Dropout != 0:
		return errors.New("dropout is set: the ids would be random")
	case m.Prefix != "" || m.Suffix != "":
		return errors.New("continuing_subword_prefix and end_of_word_suffix are not used by Llama models and not supported")
	case len(m.Vocab) == 0:
		return errors.New("vocab is empty")
	}
	for piece, id := range m.Vocab {
		if err := h.name(piece, id); err != nil {
			return err
		}
	}
	h.bpe.ids, h.bpe.whole = m.Vocab, m.IgnoreMerges
	h.bpe.merges = make(map[pair]merge, len(m.Merges))
	for rank, parts := range m.Merges {
		left, okL := m.Vocab[parts[0]]
		right, okR := m.Vocab[parts[1]]
		joined, ok := m.Vocab[parts[0]+parts[1]]
		if !okL || !okR || !ok {
			return fmt.Errorf("merge %d: %q + %q or what they make is not in vocab", rank, parts[0], parts[1])
		}
		h.bpe.merges[pair{left, right}] = merge{uint32(rank), joined}
	}
	h.unknown = -1
	if m.Unknown != nil {
		id, ok := m.Vocab[*m.Unknown]
		if !ok {
			return fmt.Errorf("unk_token %q is not in vocab", *m.Unknown)
		}
		h.unknown, h.fuseUnknown = id, m.FuseUnknown
	}
	for b := range h.fallback {
		h.fallback[b] = -1
		if id, ok := m.Vocab[fmt.Sprintf("<0x%02X>", b)]; ok && m.ByteFallback {
			h.fallback[b] = id
		}
	}
	return nil
}

// name stores the text of an id.
func (h *hub) name(piece string, id int32) error {
	if id < 0 || id > maxID {
		return fmt.Errorf("id %d of %q is outside 0 to %d", id, piece, maxID)
	}
	for int(id) >= len(h.pieces) {
		h.pieces = append(h.pieces, make([]string, int(id)+1-len(h.pieces))...)
	}
	h.pieces[id] = piece
	return nil
}

func (h *hub) readAdded(tokens []addedToken) error {
	h.isAdded = map[int32]bool{}
	for _, a := range tokens {
		if a.SingleWord {
			return fmt.Errorf("%q: single_word is not supported", a.Content)
		}
		if a.Content == "" {
			return fmt.Errorf("id %d has no content", a.ID)
		}
		if err := h.name(a.Content, a.ID); err != nil {
			return err
		}
		h.isAdded[a.ID] = true
		h.added.add(a)
	}
	h.special = make([]bool, len(h.pieces))
	for _, a := range tokens {
		h.special[a.ID] = a.Special
	}
	return nil
}

// blank is what SentencePiece writes a space as.
const blank = "\u2581"

func (h *hub) readNormalizer(c *component) error {
	switch {
	case c.Type == "Prepend" && c.Prepend == blank && h.prepend == never:
		h.prepend = always
	case c.Type == "Replace" && c.Pattern != nil && c.Pattern.String == " " && c.Content == blank:
		h.spaces = true
	default:
		return fmt.Errorf("%s is not what Llama models use and is not supported", c.Type)
	}
	return nil
}

func (h *hub) readPreTokenizer(c *component) error {
	switch c.Type {
	case "Split":
		if c.Pattern == nil || c.Invert || !strings.EqualFold(c.Behavior, "isolated") {
			return errors.New("Split must isolate the matches of a pattern")
		}
		s, ok := patterns[c.Pattern.Regex]
		if !ok {
			return fmt.Errorf("the pattern of Split is none of those known here: %s", c.Pattern.Regex)
		}
		h.split = s.next
	case "ByteLevel":
		if c.AddPrefixSpace || c.UseRegex == nil || *c.UseRegex {
			return errors.New("ByteLevel with a prefix space or a pattern of its own is not supported")
		}
		h.byteLevel = true
	case "Metaspace":
		return h.readMetaspace(c)
	default:
		return fmt.Errorf("%s is not what Llama models use and is not supported", c.Type)
	}
	return nil
}

func (h *hub) readMetaspace(c *component) error {
	if c.Replacement != blank {
		return fmt.Errorf("Metaspace writes spaces as %q, only %q is supported", c.Replacement, blank)
	}
	scheme := "always"
	if c.PrependScheme != nil {
		scheme = *c.PrependScheme
	}
	schemes := map[string]prepend{"always": unlessThere, "first": first, "never": never}
	p, ok := schemes[scheme]
	if !ok {
		return fmt.Errorf("prepend_scheme is %q; always, first and never are known", scheme)
	}
	h.prepend, h.spaces = p, true
	if c.Split == nil || *c.Split {
		h.split = nextBlank
	}
	return nil
}

func (h *hub) readDecoder(c *component) error {
	switch c.Type {
	case "ByteLevel":
		h.byteLevel = true
	case "Replace":
		if c.Pattern == nil || c.Pattern.String != blank || c.Content != " " {
			return errors.New("Replace must turn U+2581 into a space")
		}
	case "ByteFallback", "Fuse":
	case "Strip":
		if c.Content != " " {
			return fmt.Errorf("Strip of %q is not supported", c.Content)
		}
		h.stripped = c.Start
	case "Metaspace":
		if c.PrependScheme == nil || *c.PrependScheme != "never" {
			h.stripped = 1
		}
	default:
		return fmt.Errorf("%s is not what Llama models use and is not supported", c.Type)
	}
	return nil
}

// readPostProcessor takes what a template puts before and after a text.
func (t *Tokenizer) readPostProcessor(c *component) error {
	switch c.Type {
	case "ByteLevel": // moves offsets, not ids
		return nil
	case "TemplateProcessing":
	default:
		return fmt.Errorf("%s is not what Llama models use and is not supported", c.Type)
	}
	into := &t.before
	for _, part := range c.Single {
		switch {
		case part.Sequence != nil:
			into = &t.after
		case part.Special != nil:
			*into = append(*into, c.Special[part.Special.ID].IDs...)
		}
	}
	return nil
}

// decodePieces turns the pieces, which are written in the alphabet of the
// file, into the bytes they stand for, and in a byte-level vocabulary the keys
// as well.
func (h *hub) decodePieces() error {
	h.bytes = make([]string, len(h.pieces))
	for id, piece := range h.pieces {
		switch {
		case h.isAdded[int32(id)]:
			h.bytes[id] = piece
		case h.byteLevel:
			h.bytes[id] = fromByteLevel(piece)
		default:
			h.bytes[id] = fromSentencePiece(piece)
		}
	}
	if !h.byteLevel {
		return nil
	}
	h.split = orWhole(h.split)
	keys := make(map[string]int32, len(h.bpe.ids))
	for piece, id := range h.bpe.ids {
		keys[fromByteLevel(piece)] = id
	}
	h.bpe.ids = keys
	for b := range h.fallback {
		id, ok := keys[string([]byte{byte(b)})]
		if !ok {
			return fmt.Errorf("model: the byte 0x%02X has no piece in this byte-level vocabulary", b)
		}
		h.fallback[b] = id
	}
	return nil
}

// fromSentencePiece returns the bytes of a piece: a byte token's byte, else
// the text with its blanks as spaces.
func fromSentencePiece(piece string) string {
	if b, ok := byteToken(piece); ok {
		return string([]byte{b})
	}
	return strings.ReplaceAll(piece, blank, " ")
}

// byteToken reads pieces like <0x0A>.
func byteToken(piece string) (byte, bool) {
	if len(piece) != 6 || piece[:3] != "<0x" || piece[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(piece[3:5], 16, 8)
	return byte(v), err == nil
}
