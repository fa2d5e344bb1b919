// SPDX-License-Identifier: Apache-2.0
using System.IO;
using System.Runtime.CompilerServices;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>Reads the fields of protobuf messages. Malformed bytes cause an <see cref="IOException"/>.</summary>
    internal static class Wire
    {
        internal const int Varint = 0;
        internal const int Fixed64 = 1;
        internal const int Bytes = 2;
        internal const int Fixed32 = 5;

        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        internal static long ReadVarint(byte[] bytes, ref int at, int end) =>
            at < end && bytes[at] < 0x80 ? bytes[at++] : ReadLongVarint(bytes, ref at, end);

        /// <summary>Reads a length. Returns where its bytes end.</summary>
        internal static int ReadEnd(byte[] bytes, ref int at, int end)
        {
            long length = ReadVarint(bytes, ref at, end);
            if (length < 0 || length > end - at)
                throw new IOException("a message of the stream has a malformed length");
            return at + (int)length;
        }

        internal static void Skip(byte[] bytes, int tag, ref int at, int end)
        {
            switch (tag & 7)
            {
                case Varint:
                    ReadVarint(bytes, ref at, end);
                    break;
                case Fixed64:
                    at += 8;
                    break;
                case Bytes:
                    at = ReadEnd(bytes, ref at, end);
                    break;
                case Fixed32:
                    at += 4;
                    break;
                default:
                    throw new IOException("a message of the stream has an unknown wire type");
            }
            if (at > end)
                throw new IOException("a message of the stream is cut");
        }

        /// <summary>Returns a field of a message that was read before; 0: it is absent.</summary>
        internal static long FindNumber(byte[] bytes, int begin, int end, int field)
        {
            int at = Find(bytes, begin, end, field << 3 | Varint);
            return at < 0 ? 0 : ReadVarint(bytes, ref at, end);
        }

        /// <summary>Returns a field of a message that was read before; empty: it is absent.</summary>
        internal static string FindText(byte[] bytes, int begin, int end, int field)
        {
            int at = Find(bytes, begin, end, field << 3 | Bytes);
            if (at < 0)
                return "";
            int textEnd = ReadEnd(bytes, ref at, end);
            return Encoding.UTF8.GetString(bytes, at, textEnd - at);
        }

        /// <summary>Returns the place after the last tag that is equal, or -1: the last field counts.</summary>
        private static int Find(byte[] bytes, int begin, int end, int wanted)
        {
            int found = -1;
            for (int at = begin; at < end;)
            {
                int tag = (int)ReadVarint(bytes, ref at, end);
                if (tag == wanted)
                    found = at;
                Skip(bytes, tag, ref at, end);
            }
            return found;
        }

        private static long ReadLongVarint(byte[] bytes, ref int at, int end)
        {
            long value = 0;
            for (int shift = 0; shift < 64 && at < end; shift += 7)
            {
                byte part = bytes[at++];
                value |= (long)(part & 0x7f) << shift;
                if (part < 0x80)
                    return value;
            }
            throw new IOException("a message of the stream has a malformed number");
        }
    }
}
