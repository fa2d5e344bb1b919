// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// The bytes of the stream. Each message has its length before it, as a varint. Records refer to the bytes, so
    /// these are written once.
    /// </summary>
    internal sealed class MessageBuffer
    {
        /// <summary>A record of 10 MiB and what belongs to it fit.</summary>
        internal const int MaxMessageBytes = 32 << 20;

        /// <summary>A record that the app keeps keeps as much.</summary>
        private const int UsualBytes = 64 << 10;
        private const int LeastRoom = 4 << 10;

        private readonly EventDecoder _decoder;
        private byte[] _bytes = new byte[UsualBytes];

        /// <summary>The first byte that is not decoded.</summary>
        private int _begin;
        private int _end;

        /// <summary>Bytes from there on that need room: those of the message that is not whole.</summary>
        private int _wanted = LeastRoom;

        internal MessageBuffer(EventDecoder decoder)
        {
            _decoder = decoder;
        }

        /// <summary>Forgets the bytes of the connection before.</summary>
        internal void Clear()
        {
            _begin = _end;
            _wanted = LeastRoom;
        }

        /// <summary>Reads bytes from the connection. Returns false at the end of the answer.</summary>
        internal bool Fill(HttpConnection connection)
        {
            if (_begin + _wanted > _bytes.Length)
                Move();
            int count = connection.ReadBody(_bytes, _end, _bytes.Length - _end);
            _end += Math.Max(0, count);
            return count >= 0;
        }

        /// <summary>Decodes all messages that are whole: each is a Record or a ConsumerEvent.</summary>
        internal List<object> Decode()
        {
            var items = new List<object>();
            _wanted = LeastRoom;
            while (_begin < _end)
            {
                int at = _begin;
                int length = ReadLength(ref at);
                if (length < 0)
                    break;
                if (length > _end - at)
                {
                    _wanted = at + length - _begin;
                    break;
                }
                items.Add(_decoder.Decode(_bytes, at, at + length));
                _begin = at + length;
            }
            return items;
        }

        /// <summary>Copies the message that is not whole to new memory, with room for all of it.</summary>
        private void Move()
        {
            var target = new byte[Math.Max(_wanted, UsualBytes)];
            Buffer.BlockCopy(_bytes, _begin, target, 0, _end - _begin);
            _bytes = target;
            _end -= _begin;
            _begin = 0;
        }

        /// <summary>Returns the length of a message; -1: it is not whole.</summary>
        private int ReadLength(ref int at)
        {
            int length = 0;
            for (int shift = 0; at < _end; shift += 7)
            {
                byte part = _bytes[at++];
                length |= (part & 0x7f) << shift;
                if (length > MaxMessageBytes || length < 0 || shift > 21)
                    throw new IOException("a message of the stream has more than " + MaxMessageBytes + " bytes");
                if (part < 0x80)
                    return length;
            }
            return -1;
        }
    }
}
