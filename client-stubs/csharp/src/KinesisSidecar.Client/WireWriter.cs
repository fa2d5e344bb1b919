// SPDX-License-Identifier: Apache-2.0
using System.IO;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>Writes the fields of a protobuf message, for tests.</summary>
    internal sealed class WireWriter
    {
        private readonly MemoryStream _bytes = new MemoryStream();

        internal byte[] ToArray() => _bytes.ToArray();

        internal WireWriter Number(int field, long number)
        {
            Varint(field << 3 | Wire.Varint);
            Varint(number);
            return this;
        }

        internal WireWriter Text(int field, string text) => Bytes(field, Encoding.UTF8.GetBytes(text));

        internal WireWriter Bytes(int field, byte[] bytes)
        {
            Varint(field << 3 | Wire.Bytes);
            return Delimited(bytes);
        }

        internal WireWriter Delimited(byte[] bytes)
        {
            Varint(bytes.Length);
            _bytes.Write(bytes, 0, bytes.Length);
            return this;
        }

        private void Varint(long number)
        {
            ulong left = (ulong)number;
            for (; left >= 0x80; left >>= 7)
                _bytes.WriteByte((byte)(left | 0x80));
            _bytes.WriteByte((byte)left);
        }
    }
}
