// Package tokenizer turns text into the token ids of a model and back: the
// tokenizer.json of Llama models (the byte-fallback BPE of Llama 2, the
// byte-level BPE of Llama 3 and its kin), and a byte tokenizer for models that
// have none.
package tokenizer

// Message is one turn of a chat.
type Message struct {
	Role, Content string
}

// Tokenizer turns text into ids and back. It is safe for concurrent use.
type Tokenizer struct {
	model    model
	vocab    int
	bos, eos int32 // -1 when there is none
	// before and after are the ids that addSpecial puts around a text.
	before, after []int32
}

// model is a way of tokenizing.
type model interface {
	// encode appends the ids of text, special tokens written in it included.
	encode(ids []int32, text string) []int32
	// decode appends the bytes of one id, none for specials and unknown ids.
	decode(out []byte, id int32) []byte
	// text returns ids as the model's own decoder prints them, without specials.
	text(ids []int32) string
	// chat returns the ids of a conversation that the assistant is to answer.
	chat(messages []Message) ([]int32, error)
}

// Encode returns the ids of text; addSpecial adds what the model puts around a
// plain prompt, mostly its BOS.
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 {
	ids := make([]int32, 0, len(text)/3+len(t.before)+len(t.after))
	if !addSpecial {
		return t.model.encode(ids, text)
	}
	ids = append(ids, t.before...)
	return append(t.model.encode(ids, text), t.after...)
}

// Count is the number of ids that Encode returns.
func (t *Tokenizer) Count(text string, addSpecial bool) int {
	return len(t.Encode(text, addSpecial))
}

// Decode returns the bytes of ids, one after the other; special ids and ids
// outside the vocabulary have none. A token may be a part of a UTF-8
// character, and the space that Llama 2 puts before a text is not removed:
// bytes of successive tokens can be joined.
func (t *Tokenizer) Decode(ids []int32) []byte {
	out := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		out = t.model.decode(out, id)
	}
	return out
}

// AppendDecode appends the bytes of one id to out, as Decode does.
func (t *Tokenizer) AppendDecode(out []byte, id int32) []byte {
	return t.model.decode(out, id)
}

// Text returns ids as text for people: without special tokens, bytes that are
// no UTF-8 replaced by U+FFFD, without the space that Llama 2 puts before a
// text.
func (t *Tokenizer) Text(ids []int32) string { return t.model.text(ids) }

// Chat returns the ids of a conversation through the model's chat template:
// BOS and the opening of the assistant's turn included. ErrNoTemplate when the
// model has none.
func (t *Tokenizer) Chat(messages []Message) ([]int32, error) { return t.model.chat(messages) }

// VocabSize is one more than the largest id.
func (t *Tokenizer) VocabSize() int { return t.vocab }

// BOS is the id that begins a text; ok is false when the model has none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos >= 0 }

// EOS is the id that ends a text; ok is false when the model has none.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos >= 0 }
