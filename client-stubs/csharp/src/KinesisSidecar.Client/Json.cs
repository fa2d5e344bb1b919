// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>Reads the answers of the sidecar (RFC 8259). .NET Standard 2.0 has no JSON reader without a
    /// package.</summary>
    internal sealed class Json
    {
        private const int MaxDepth = 64;
        private readonly string _text;
        private int _at;

        private Json(string text)
        {
            _text = text;
        }

        /// <summary>Returns a Dictionary, List, string, double, bool or null. Other text causes an
        /// IOException.</summary>
        internal static object Parse(string text)
        {
            var json = new Json(text);
            object value = json.Value(0);
            if (json.Peek() != '\0' || json._at < text.Length)
                throw json.Malformed();
            return value;
        }

        /// <summary>Appends the text as a JSON string. Characters that the sidecar does not take become question marks.
        /// </summary>
        internal static void Quote(StringBuilder json, string text)
        {
            json.Append('"');
            for (int i = 0; i < text.Length; i++)
            {
                char c = text[i];
                if (c == '"' || c == '\\')
                    json.Append('\\').Append(c);
                else if (c == '\0')
                    json.Append('?');
                else if (c < ' ')
                    json.Append("\\u").Append(((int)c).ToString("x4"));
                else if (!char.IsSurrogate(c))
                    json.Append(c);
                else if (i + 1 < text.Length && char.IsSurrogatePair(c, text[i + 1]))
                    json.Append(c).Append(text[++i]);
                else
                    json.Append('?');
            }
            json.Append('"');
        }

        private object Value(int depth)
        {
            if (depth > MaxDepth)
                throw Malformed();
            switch (Peek())
            {
                case '{':
                    return Members(depth);
                case '[':
                    return Items(depth);
                case '"':
                    return Text();
                case 't':
                    return Word("true", true);
                case 'f':
                    return Word("false", false);
                case 'n':
                    return Word("null", null);
                default:
                    return Number();
            }
        }

        private Dictionary<string, object> Members(int depth)
        {
            var members = new Dictionary<string, object>();
            _at++;
            if (Skips('}'))
                return members;
            do
            {
                if (Peek() != '"')
                    throw Malformed();
                string name = Text();
                Expect(':');
                members[name] = Value(depth + 1);
            }
            while (Skips(','));
            Expect('}');
            return members;
        }

        private List<object> Items(int depth)
        {
            var items = new List<object>();
            _at++;
            if (Skips(']'))
                return items;
            do
                items.Add(Value(depth + 1));
            while (Skips(','));
            Expect(']');
            return items;
        }

        private string Text()
        {
            var text = new StringBuilder();
            _at++;
            while (true)
            {
                char c = Take();
                if (c == '"')
                    return text.ToString();
                text.Append(c == '\\' ? Escaped() : c);
            }
        }

        private char Escaped()
        {
            char c = Take();
            int at = "bfnrt".IndexOf(c);
            if (at >= 0)
                return "\b\f\n\r\t"[at];
            if (c != 'u')
                return c;
            string digits = _text.Substring(_at, Math.Min(4, _text.Length - _at));
            _at += digits.Length;
            if (!ushort.TryParse(digits, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out var code))
                throw Malformed();
            return (char)code;
        }

        private object Word(string word, object value)
        {
            if (string.CompareOrdinal(_text, _at, word, 0, word.Length) != 0)
                throw Malformed();
            _at += word.Length;
            return value;
        }

        private object Number()
        {
            int begin = _at;
            while (_at < _text.Length && "+-.0123456789Ee".IndexOf(_text[_at]) >= 0)
                _at++;
            string digits = _text.Substring(begin, _at - begin);
            if (!double.TryParse(digits, NumberStyles.Float, CultureInfo.InvariantCulture, out var number))
                throw Malformed();
            return number;
        }

        /// <summary>Returns the next character that is not white space, or NUL at the end.</summary>
        private char Peek()
        {
            while (_at < _text.Length && " \t\r\n".IndexOf(_text[_at]) >= 0)
                _at++;
            return _at < _text.Length ? _text[_at] : '\0';
        }

        private char Take()
        {
            if (_at == _text.Length)
                throw Malformed();
            return _text[_at++];
        }

        private bool Skips(char c)
        {
            if (Peek() != c)
                return false;
            _at++;
            return true;
        }

        private void Expect(char c)
        {
            if (!Skips(c))
                throw Malformed();
        }

        private IOException Malformed() =>
            new IOException("the answer of the sidecar is not JSON: see character " + _at);
    }
}
